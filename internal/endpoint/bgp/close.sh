# Closes the connections at the endpoint's address. Since the withdrawal, the routers send their
# packets to other machines, so no client can end them. The API server would wait for them for a
# minute. Go sets port and prefix (ss takes the end of a bare IPv6 address for a port). A machine
# without ss, or a kernel that cannot close connections of others, leaves them to the API server.
if command -v ss >/dev/null; then
  ss --no-header --kill --tcp state connected src "$prefix" sport = ":$port" >/dev/null 2>&1 || true
fi
echo ours

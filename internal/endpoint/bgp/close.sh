# Closes the connections that servers have accepted at the endpoint's address, at all ports: those of
# clients, and those of konnectivity's agents. Since the withdrawal, the routers send their packets to
# other machines, so no client can end them. The API server would wait for them for a minute, and the
# proxy server would use agents that it does not reach. What this machine has opened stays: the kernel
# may have chosen the address as the source for a neighbor that no router leads to, such as a local Pod.
# Go sets prefix (ss takes the end of a bare IPv6 address for a port). A machine without ss, or a kernel
# that cannot close connections of others, leaves them to the servers.
if command -v ss >/dev/null; then
  ports=$(ss --no-header --listening --tcp --numeric | awk '{ sub(/.*:/, "", $4); print "or sport = :" $4 }' | sort -u)
  # shellcheck disable=SC2086 # words of a filter
  ss --no-header --kill --tcp state connected src "$prefix" and \( sport = :0 $ports \) >/dev/null 2>&1 || true
fi
echo ours

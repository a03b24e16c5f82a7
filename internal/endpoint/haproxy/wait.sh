# Waits until server $name has no session, or no session has ended for two seconds, but
# at most $seconds, and prints how many it has. The remaining ones are connections that
# clients keep open: the API server itself asks clients to reconnect when it stops
# (HTTP/2 GOAWAY), which loses no request and which no balancer can do.
exec 9<&-
active || { echo 0; exit 0; }
left=$(sessions)
tries=0 still=0
while [ "$left" -gt 0 ] && [ "$tries" -lt $((seconds * 5)) ] && [ "$still" -lt 10 ]; do
  sleep 0.2
  tries=$((tries + 1)) still=$((still + 1))
  now=$(sessions)
  [ "$now" -ge "$left" ] || still=0
  left=$now
done
echo "$left"

# Waits until server $name has no session, or none has ended for two seconds, at
# most $seconds, and says how many it has. What is left by then are connections
# that clients keep open: the API server itself asks them to go elsewhere when it
# stops (HTTP/2 GOAWAY), which loses no request and which no balancer can do.
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

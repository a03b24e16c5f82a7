# Waits until server $name has no session, or no session has ended for two seconds, but
# at most $seconds, and prints how many it has. The remaining ones are connections that
# clients keep open: the API server itself asks clients to reconnect when it stops
# (HTTP/2 GOAWAY), which loses no request and which no balancer can do. A HAProxy that has ended has none.
exec 9<&-
count() {
  left=$(sessions) && return
  ! active || exit 1
  left=0
}
count
clock
end=$((now + seconds * 100)) ended=$now
while [ "$left" -gt 0 ] && [ "$now" -lt "$end" ] && [ $((now - ended)) -lt 200 ]; do
  sleep 0.2
  before=$left
  count
  clock
  [ "$left" -ge "$before" ] || ended=$now
done
echo "$left"

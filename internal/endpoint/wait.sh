# Waits up to $seconds until server $name has no session, and says how many it has.
exec 9<&-
active || { echo 0; exit 0; }
left=$(sessions)
tries=0
while [ "$left" -gt 0 ] && [ "$tries" -lt $((seconds * 5)) ]; do
  sleep 0.2
  tries=$((tries + 1))
  left=$(sessions)
done
echo "$left"

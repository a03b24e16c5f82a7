# Follows every change of the machine's member into a file for $seconds, as what makes snapshots of changes does, and
# prints how many there were.
{ ctl "$address" watch / --prefix >/root/bench.changes; } 2>/dev/null & # the shell says how it ended
following=$!
sleep "$seconds"
pkill -P "$following"
wait "$following" 2>/dev/null
grep -c '^PUT$' /root/bench.changes
rm /root/bench.changes

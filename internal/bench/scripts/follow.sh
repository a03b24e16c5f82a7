# Follows every change of the machine's member into a file for $seconds, as what makes snapshots of changes does. Fails
# if there were fewer than $least.
ctl "$address" watch / --prefix >/root/bench.changes &
following=$!
sleep "$seconds"
pkill -P "$following"
wait "$following" 2>/dev/null
found=$(grep -c '^PUT$' /root/bench.changes)
rm /root/bench.changes
[ "$found" -ge "$least" ] || { echo "followed $found changes, wanted $least" >&2; exit 1; }

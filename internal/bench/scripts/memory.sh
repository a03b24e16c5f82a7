# Prints the memory of the processes whose names are in $names, in KiB: what they have alone, and their share of what
# they have in common (Pss of proc_pid_smaps_rollup).
for name in $names; do
  for pid in $(pgrep -f "^([^ ]*/)?$name( |\$)"); do cat "/proc/$pid/smaps_rollup" 2>/dev/null; done
done | awk '/^Pss:/ { sum += $2 } END { print sum + 0 }'

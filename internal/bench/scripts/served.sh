# Fails unless the cluster has exactly three voters, and the machine's member serves the $keys keys of the benchmark.
voters=$(ctl "$address" member list) || { echo "$voters"; exit 1; }
found="$(echo "$voters" | grep -c ', started, .*, false$') voters of $(echo "$voters" | wc -l)"
found="$found, $(ctl "$address" get /bench/ --prefix --count-only --write-out=fields | sed -n 's/^"Count" : //p') keys"
[ "$found" = "3 voters of 3, $keys keys" ] || { echo "found $found, wanted 3 voters of 3, $keys keys"; exit 1; }

# Takes server $name out of rotation for new connections, unless it is the last
# one that serves: it must be decided under the lock, or two replicas could each
# count on the other.
if ! active; then
  echo stopped
  exit 0
fi
servers=$(running)
verdict=$(printf '%s\n' "$servers" | awk -v name="$name" '
  $1 == name { there = 1; serving = $3 == 2 && $4 == 0; next }
  NF { others++; if ($3 == 2 && $4 == 0) serve++ }
  END {
    if (!there) print "unknown"
    else if (serving && others && !serve) print "last"
    else if (serving) print "drained"
    else print "idle"
  }')
case $verdict in
drained | idle) ask "set server kube-apiserver/$name state drain" >/dev/null ;;
last) ask 'show stat -1 4 -1' >&2 ;;
esac
echo "$verdict"

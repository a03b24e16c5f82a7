# Takes server $name out of rotation for new connections. It must be decided
# under the lock, or two replicas could each count on the other. One that leaves
# for good ($for_good is 1) must not be the last that serves; one that comes back
# must find all others serving: at most one is out at a time.
if ! active; then
  echo stopped
  exit 0
fi
verdict=$(running | awk -v name="$name" -v for_good="$for_good" '
  $1 == name { there = 1; serving = $3 == 2 && $4 == 0; next }
  NF { others++; if ($3 == 2 && $4 == 0) serve++ }
  END {
    if (!there) print "unknown"
    else if (!serving) print "idle"
    else if (others && !serve) print "last"
    else if (others > serve && !for_good) print "another"
    else print "drained"
  }')
echo "$verdict"
case $verdict in
drained | idle) ask "set server kube-apiserver/$name state drain" >/dev/null ;;
last | another) ask 'show stat -1 4 -1' ;;
esac

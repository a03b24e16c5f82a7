# Takes server $name out of rotation for new connections. It must be decided
# under the lock, or two replicas could each count on the other. Whether a server
# is well is what HAProxy's own checks say; one serves that is well, was checked
# and is in rotation. $leaving is
#   back    it comes back: all others must serve, so that at most one is out at a time
#   alone   it leaves for good: another one must serve, unless there is no other
#   others  it leaves for good: another one must serve
# One that is refused is in rotation, also where an earlier drain had taken it out.
if ! active; then
  echo stopped
  exit 0
fi
verdict=$(running | awk -v name="$name" -v leaving="$leaving" '
  $1 == name { there = 1; well = $3 == 2; next }
  NF { others++; if ($3 == 2 && $4 == 0 && $5 == 3) serve++ }
  END {
    if (!there) print "unknown"
    else if (!well) print "idle"
    else if (!serve && (others || leaving == "others")) print "last"
    else if (leaving == "back" && others > serve) print "another"
    else print "drained"
  }')
echo "$verdict"
case $verdict in
drained | idle) ask "set server kube-apiserver/$name state drain" >/dev/null ;;
last | another)
  ask "set server kube-apiserver/$name state ready" >/dev/null
  ask 'show stat -1 4 -1'
  ;;
esac

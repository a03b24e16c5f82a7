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
# judge: the verdict, and "unchecked" behind it where a server that may serve was not
# checked since HAProxy took its list (0 and 1 are no result yet).
judge() {
  running | awk -v name="$name" -v leaving="$leaving" '
    $1 == name { there = 1; well = $3 == 2; next }
    NF { others++; if ($3 == 2 && $4 == 0) { if ($5 == 3) serve++; else if ($5 < 2) unchecked = " unchecked" } }
    END {
      if (!there) print "unknown"
      else if (!well) print "idle"
      else if (!serve && (others || leaving == "others")) print "last" unchecked
      else if (leaving == "back" && others > serve) print "another" unchecked
      else print "drained"
    }'
}
verdict=$(judge)
tries=0
while [ "${verdict#* }" = unchecked ] && [ "$tries" -lt 20 ]; do # checks are a second apart
  sleep 0.2
  tries=$((tries + 1))
  verdict=$(judge)
done
verdict=${verdict% unchecked}
echo "$verdict"
case $verdict in
drained | idle) ask "set server kube-apiserver/$name state drain" >/dev/null ;;
last | another)
  ask "set server kube-apiserver/$name state ready" >/dev/null
  ask 'show stat -1 4 -1'
  ;;
esac

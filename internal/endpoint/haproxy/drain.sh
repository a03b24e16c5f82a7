# Takes server $name out of rotation for new connections. The decision is made under the
# lock; otherwise two replicas could each rely on the other. HAProxy's own checks decide
# whether a server is healthy. A server serves if it is healthy, checked and in rotation.
# $known is how many other servers any balancer of the endpoint has: this one may lack some.
# $leaving is
#   back    it returns: all others must serve, so that at most one is out at a time
#   alone   it leaves permanently: another one must serve, unless there is no other
#   others  it leaves permanently: another one must serve
# A refused server is in rotation afterwards, even if an earlier drain had taken it out.
if ! active; then
  echo stopped
  exit 0
fi
# judge: prints the verdict, followed by "unchecked" if a server that may serve has not
# been checked since HAProxy loaded its list (0 and 1 are not results yet).
judge() {
  all=$(running) || return 1
  printf '%s\n' "$all" | awk -v name="$name" -v leaving="$leaving" -v known="$known" '
    $1 == name { there = 1; well = $3 == 2; next }
    NF { others++; if ($3 == 2 && $4 == 0) { if ($5 == 3) serve++; else if ($5 < 2) unchecked = " unchecked" } }
    END {
      if (!there) print "unknown"
      else if (!well) print "idle"
      else if (!serve && (others || known > 0 || leaving == "others")) print "last" unchecked
      else if (leaving == "back" && others > serve) print "another" unchecked
      else print "drained"
    }'
}
verdict=$(judge)
tries=0
while [ "${verdict#* }" = unchecked ] && [ "$tries" -lt 20 ]; do # checks have an interval of one second
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

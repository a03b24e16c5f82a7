# Runs after the files are in place; CHANGED names those that are new. Both
# programs are only ever reloaded while they run: the address stays, and so does
# every connection.
backends=/etc/haproxy/kube/20-backends.cfg
exec 9</etc/haproxy/kube
flock 9
if [ -e "$backends" ]; then
  {
    printf '%s' "$header"
    awk '$1 == "server" && NF >= 3 { print "    server " $2 " " $3 }' "$backends" | LC_ALL=C sort -u
  } >"$backends.new"
else
  printf '%s' "$seed" >"$backends.new"
fi
if cmp -s "$backends.new" "$backends"; then
  rm "$backends.new"
else
  CHANGED="$CHANGED $backends"
  mv "$backends.new" "$backends"
fi

# settle UNIT PATH…: the unit runs, with what is in the paths.
settle() {
  unit=$1
  shift
  if ! systemctl is-active --quiet "$unit"; then
    systemctl reset-failed "$unit" 2>/dev/null || true
    systemctl start "$unit"
    return
  fi
  for path; do
    case " $CHANGED " in
    *" $path "*)
      systemctl reload "$unit"
      return
      ;;
    esac
  done
}
haproxy -c -q -f /etc/haproxy/kube/10-endpoint.cfg -f "$backends"
settle kube-endpoint-haproxy.service /etc/haproxy/kube/10-endpoint.cfg /etc/haproxy/kube/ca.crt "$backends"
settle kube-endpoint-keepalived.service /etc/keepalived/kube.conf

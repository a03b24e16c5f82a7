# Runs after the files are in place; CHANGED names those that are new. Both
# programs are only ever reloaded while they run: the address stays, and so does
# every connection. Go sets servers, what the list of servers shall hold, and
# listed, the digest of the list that this was decided by: replicas that came or
# left meanwhile stay as they are.
backends=$config/20-backends.cfg
lock
if [ "$(whose)" != ours ]; then
  echo "the machine has another endpoint by now, or lost its record: $config/endpoint.json" >&2
  exit 1
fi
if [ ! -e "$backends" ] || [ "$(sha256sum <"$backends")" = "$listed  -" ]; then
  printf '%s' "$servers" >"$backends.new"
  chmod 644 "$backends.new"
  if cmp -s "$backends.new" "$backends" && [ "$(stat -c %a:%U:%G "$backends")" = 644:root:root ]; then
    rm "$backends.new"
  else
    CHANGED="$CHANGED $backends"
    mv "$backends.new" "$backends"
  fi
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

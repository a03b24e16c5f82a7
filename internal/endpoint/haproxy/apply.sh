# Runs after the files are in place; CHANGED lists the changed files. Running programs
# are only reloaded, so the address and all connections stay. Go sets servers, the desired
# list of servers, and listed, the digest of the list that the decision was based on:
# replicas that were registered or deregistered since then are left as they are.
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
    flush "$backends.new"
    mv "$backends.new" "$backends"
    flush "$config"
  fi
fi

# settle UNIT PATH…: makes sure that the unit runs with the content of the paths. $hung names those that hung when
# they were observed, with their invocations: such a process would not end, nor be reloaded.
settle() {
  unit=$1
  shift
  case " $hung " in
  *" $unit=$(systemctl show --property=InvocationID --value "$unit") "*)
    systemctl kill --signal=KILL "$unit" || true
    systemctl restart "$unit"
    return
    ;;
  esac
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

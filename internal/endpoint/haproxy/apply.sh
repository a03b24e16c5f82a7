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

# has: whether this machine has one of the virtual IPs.
has() {
  for address in $vips; do
    [ -z "$(ip -o address show to "$address")" ] || return 0
  done
  return 1
}

# given: whether the services that had the address before have given it to the endpoint's keepalived.
given() {
  systemctl is-active --quiet kube-endpoint-keepalived.service && ! systemctl is-active --quiet keepalived.service
}
if [ "$step" = prepare ] && has && given; then
  echo "the endpoint has the address by now" >&2
  exit 1
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

# waiting NUMBER: tells keepalived whether it waits (1).
waiting() {
  if [ "$(cat "$config/waiting" 2>/dev/null)" = "$1" ] &&
    [ "$(stat -c %a:%U:%G "$config/waiting")" = 644:root:root ]; then
    return
  fi
  echo "$1" >"$config/waiting.new"
  chmod 644 "$config/waiting.new"
  flush "$config/waiting.new"
  mv "$config/waiting.new" "$config/waiting"
  flush "$config"
}

watcher=kube-endpoint-watch.service
had=false
if has; then had=true; fi
if [ "$step" != take ]; then
  systemctl stop "$watcher" 2>/dev/null || true
  if [ -e "/etc/systemd/system/$watcher" ]; then
    rm -f "/etc/systemd/system/$watcher" "/etc/systemd/system/multi-user.target.wants/$watcher" /opt/kube/endpoint/watch
    flush /etc/systemd/system /etc/systemd/system/multi-user.target.wants /opt/kube/endpoint
    systemctl daemon-reload
  fi
fi
haproxy -c -q -f /etc/haproxy/kube/10-endpoint.cfg -f "$backends"
# What was interrupted after it had changed the list, or failed, has left HAProxy with an older one.
if systemctl is-active --quiet kube-endpoint-haproxy.service && outdated "$backends"; then
  CHANGED="$CHANGED $backends"
fi
settle kube-endpoint-haproxy.service /etc/haproxy/kube/10-endpoint.cfg /etc/haproxy/kube/ca.crt "$backends"
# What keepalived tracks is there before its configuration names it, and as long as it does.
case $step in
take)
  case " $CHANGED " in
  *" /etc/systemd/system/$watcher "* | *' /opt/kube/endpoint/watch '*) systemctl restart "$watcher" ;;
  *) systemctl start "$watcher" ;;
  esac
  ;;
prepare | release) waiting 1 ;;
inherit) # inherit.sh says when it ends
  if [ ! -e "$config/waiting" ]; then
    if given; then waiting 0; else waiting 1; fi
  fi
  ;;
*) [ ! -e "$config/waiting" ] || waiting 0 ;;
esac
settle kube-endpoint-keepalived.service /etc/keepalived/kube.conf
case $step in
'')
  if [ -e "$config/waiting" ]; then
    rm "$config/waiting"
    flush "$config"
  fi
  ;;
release)
  tries=0
  while has && [ "$tries" -lt 50 ]; do
    tries=$((tries + 1))
    [ "$tries" -ne 30 ] || systemctl restart kube-endpoint-keepalived.service
    sleep 0.1
  done
  # Nothing of the clients arrives here any more, but HAProxy can still end their connections, so that they open new
  # ones at once. It does so when what is being answered has been answered.
  if $had; then
    sleep 0.2
    systemctl restart kube-endpoint-haproxy.service
  fi
  ;;
esac

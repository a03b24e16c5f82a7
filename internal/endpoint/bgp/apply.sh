# Runs after the files are in place; CHANGED lists the changed files. A session lasts if only other
# sessions, or nothing of bird, have changed.
lock
if [ "$(whose)" != ours ]; then
  echo "the machine has another endpoint by now, or lost its record: $config/endpoint.json" >&2
  exit 1
fi
command bird -p -c "$config/bird.conf" >&2

# changed PATH…: whether one of the paths is among the changed files.
changed() {
  for path; do
    case " $CHANGED " in
    *" $path "*) return 0 ;;
    esac
  done
  return 1
}

# settle VERB UNIT PATH…: makes sure that the unit runs with the content of the paths.
settle() {
  verb=$1 unit=$2
  shift 2
  if ! systemctl is-active --quiet "$unit"; then
    systemctl reset-failed "$unit" 2>/dev/null || true
    systemctl start "$unit"
  elif changed "$@"; then
    systemctl "$verb" "$unit"
  fi
}
units=/etc/systemd/system
programs=/opt/kube/endpoint-bgp
announces=no
if running && is up; then announces=yes; fi
settle restart kube-endpoint-bgp-address.service $units/kube-endpoint-bgp-address.service $programs/address
[ -n "$(ip -o address show dev lo to "$vip")" ] || systemctl restart kube-endpoint-bgp-address.service
# A bird that starts reads its configuration, and needs a moment for its socket.
fresh=no
# One that hangs neither ends nor takes another configuration.
if running && ! bird show status >/dev/null && ! bird show status >/dev/null; then
  systemctl kill --signal=KILL kube-endpoint-bgp.service || true
  systemctl stop kube-endpoint-bgp.service
fi
if ! systemctl is-active --quiet kube-endpoint-bgp.service || changed $units/kube-endpoint-bgp.service; then
  fresh=yes
  settle restart kube-endpoint-bgp.service $units/kube-endpoint-bgp.service
fi
tries=0
until running || [ $tries -ge 100 ]; do
  tries=$((tries + 1))
  sleep 0.1
done
[ $fresh = yes ] || settle reload kube-endpoint-bgp.service "$config/bird.conf"
# A new configuration begins without the announcement.
if [ $announces = yes ] && [ -e "$config/registered" ] && is down; then bird enable endpoint >/dev/null || true; fi
settle restart kube-endpoint-bgp-health.service $units/kube-endpoint-bgp-health.service $programs/health

# Takes the virtual IPs $entries, each with the length that the endpoint gives it, on $device from keepalived.service and
# haproxy.service of this machine. $step is "lead", "follow", "end" or "retire"; $gives and $balances are empty if that
# service has nothing to give.
ours=kube-endpoint-keepalived.service
former=keepalived.service
lock
unless_other

# state: prints the state that the endpoint's keepalived has entered last, since it was started.
state() {
  journalctl --sync 2>/dev/null || true
  journalctl --quiet --output=cat "_SYSTEMD_INVOCATION_ID=$(systemctl show --property=InvocationID --value "$ours")" |
    sed -n 's/.*(kube_endpoint) Entering \([A-Z]*\) STATE.*/\1/p' | tail -n 1
}

# waiting NUMBER: tells the endpoint's keepalived whether it waits (1).
waiting() {
  echo "$1" >"$config/waiting.new"
  chmod 644 "$config/waiting.new"
  flush "$config/waiting.new"
  mv "$config/waiting.new" "$config/waiting"
  flush "$config"
}

# become STATE: lets the endpoint's keepalived take part in the election, and waits for the outcome.
become() {
  waiting 0
  tries=0
  until [ "$(state)" = "$1" ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 50 ] || {
      echo "keepalived of the endpoint is in the state $(state), and not $1" >&2
      return 1
    }
    sleep 0.2
  done
}

# last UNIT [SETTING]: nothing starts the unit again, neither systemd now nor the next boot.
last() {
  systemctl disable "$1" >/dev/null 2>&1 || true
  mkdir -p "/run/systemd/system/$1.d"
  printf '[Service]\nRestart=no\n%s\n' "${2-}" >"/run/systemd/system/$1.d/kube-endpoint.conf"
  systemctl daemon-reload
}

case $step in
lead)
  [ -z "$gives" ] || last "$former"
  become MASTER
  ;;
follow)
  if [ -n "$gives" ]; then
    last "$former"
    systemctl stop "$former"
  fi
  if [ "$(cat "$config/waiting")" != 0 ] || [ "$(state)" != BACKUP ]; then
    # It becomes the master after three intervals of a quarter of a second in which it hears nobody.
    if become BACKUP; then sleep 2; fi
  fi
  [ "$(state)" = BACKUP ] || {
    waiting 1
    [ -z "$gives" ] || systemctl start "$former"
    echo "keepalived of the endpoint does not hear that of the machine that has the address: VRRP must pass" >&2
    exit 1
  }
  ;;
end)
  if systemctl is-active --quiet "$former" && [ -n "$gives" ]; then
    [ "$(state)" = MASTER ] || {
      echo "keepalived of the endpoint is no master any more" >&2
      exit 1
    }
    systemctl kill --signal=KILL "$former"
    systemctl stop "$former"
  fi
  systemctl reset-failed "$former" 2>/dev/null || true
  # The former one had the address with another length, or on another interface.
  for entry in $entries; do
    at=$(ip -o address show to "${entry%/*}" | awk '{ print $4 "@" $2 }')
    printf '%s\n' "$at" | grep -qxF "$entry@$device" || {
      echo "$entry is not on $device any more" >&2
      exit 1
    }
    for other in $at; do
      [ "$other" = "$entry@$device" ] || ip address delete "${other%%@*}" dev "${other##*@}"
    done
  done
  ;;
retire)
  # HAProxy's first process ends when the last connection has ended.
  if [ -n "$balances" ]; then
    last haproxy.service TimeoutStopSec=infinity
    process=$(systemctl show --property=MainPID --value haproxy.service)
    [ "${process:-0}" = 0 ] || kill -USR1 "$process"
  fi
  ;;
esac

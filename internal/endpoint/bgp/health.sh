# watch announces the address while the machine's own API server is ready and the replica is in
# rotation. withdraw is what remains when watch has ended. Go sets url, of the machine's own address.

set -eu

# follow: announces or withdraws. Whoever changes the mark of the registration holds the lock. If somebody else has it,
# what an API server that is ready has stays as it is, and the next round looks again. One that is not ready is
# withdrawn all the same. The wait is short, so that systemd's watchdog gets its sign.
follow() (
  flock -w 1 9 || [ "$failures" -ne 0 ] || return 0
  if [ "$failures" -eq 0 ] && [ -e "$config/registered" ]; then
    running || return 0
    if is down; then
      bird enable endpoint >/dev/null
      echo "<5>the API server is ready: the address is announced"
    fi
  elif running && ! is down; then
    withdraw
    echo "<5>the address is withdrawn: $why"
  fi
) 9<"$config"

# attend: kills a bird that hangs, and systemd starts it again. It has answered since its start, and does not $patience
# times in a row (about ten seconds), while systemd answers, so it is not the machine that is slow. What has never
# answered is left to the next apply.
patience=4
attend() {
  running || { silent=0; return 0; }
  start=$(stat -c %i.%Z "$socket" 2>/dev/null) || return 0
  if bird show status >/dev/null; then
    silent=0 answered=$start
    return 0
  fi
  silent=$((silent + 1))
  [ "$silent" -eq $patience ] || return 0
  if [ "$answered" != "$start" ]; then
    echo "<4>bird has not answered since its start: it is not restarted"
    return 0
  fi
  silent=1
  if timeout 2 systemctl is-active --quiet kube-endpoint-bgp.service; then
    echo "<4>bird does not answer any more: it is killed, and started again"
    systemctl kill --signal=KILL kube-endpoint-bgp.service
    answered=''
  fi
}

case $1 in
withdraw)
  withdraw
  ;;
watch)
  failures=3 beat=0 silent=0 answered=''
  systemd-notify --ready
  while :; do
    why='the replica is not in rotation'
    probe
    if [ "$failures" -ne 0 ]; then why='the API server is not ready'; fi
    if [ "$failures" -eq 0 ] || [ "$failures" -ge 3 ]; then
      # A bird that does not answer announces nothing more. Withdrawing kills it.
      if [ "$silent" -eq 0 ] || [ "$failures" -ne 0 ]; then follow; fi
    fi
    beat=$(((beat + 1) % 4))
    if [ "$beat" -eq 0 ] || [ "$silent" -ne 0 ] || [ -z "$answered" ]; then attend; fi
    if [ "$beat" -eq 0 ]; then systemd-notify WATCHDOG=1; fi
    sleep 0.5
  done
  ;;
esac

# What the agents of both modes do with kube-vip, whose process is $child ("" if it does not run). They define start, stop
# and hangs. Go sets config, run, vip, length (of its prefix), source (vip as ss takes it), program and sha256.

set -eu
# shellcheck disable=SC2034 # the agents read it
child='' born=0 lived=no failures=3 rest=0 beat=0

# devices: prints the interfaces that have the address.
devices() { ip -o address show to "$vip/$length" | awk '{ print $2 }'; }

# drop: removes the address. A kube-vip that is killed keeps it, and so may one that ends.
drop() {
  ip -o address show to "$vip/$length" | awk '{ print $4, $2 }' | while read -r held device; do
    ip address delete "$held" dev "$device" || true
  done
}

alive() { [ -n "$child" ] && kill -0 "$child" 2>/dev/null; }

# clock: sets now, in seconds that no change of the time affects.
clock() {
  read -r now _ </proc/uptime
  now=${now%.*}
}

# expected: whether the program is the one that the endpoint names.
expected() {
  if [ -n "$sha256" ] && ! echo "$sha256  $program" | sha256sum --check --status; then
    echo "<3>$program has not the digest that the endpoint names"
    return 1
  fi
}

# terminate TENTHS: ends kube-vip, and kills it if it has not ended after that time.
terminate() {
  alive || return 0
  kill -TERM "$child"
  tries=0
  while alive && [ $tries -lt "$1" ]; do
    tries=$((tries + 1))
    sleep 0.1
  done
  if alive; then kill -KILL "$child"; fi
}

# disconnect: closes the connections at the address while this machine can still tell their clients.
disconnect() { ss --no-header --kill --tcp state connected src "$source" >/dev/null 2>&1 || true; }

# ended: what follows when kube-vip has ended by itself. One that ends at once is not started again at once.
ended() {
  echo "<4>kube-vip has ended"
  clock
  if [ $((now - born)) -lt 5 ]; then rest=4; fi
  child=''
  rm -f "$run/pid"
}

# follow: kube-vip runs while the replica is in rotation and its API server is ready.
follow() {
  if [ ! -e "$config/registered" ]; then
    if alive; then
      echo "<5>the replica is not in rotation: kube-vip stops"
      stop
    fi
  elif [ $failures -ge 3 ]; then
    # One answer that is late or bad is not yet a failure.
    if alive; then
      echo "<5>the API server is not ready: kube-vip stops"
      stop
    fi
  elif [ $failures -eq 0 ] && ! alive; then
    if [ $rest -gt 0 ]; then
      rest=$((rest - 1))
    else
      echo "<5>the API server is ready: kube-vip starts"
      start
    fi
  fi
}

# attend SILENCE: every other second, tells systemd that the agent lives, and kills a kube-vip that hangs. Then it pauses.
attend() {
  beat=$(((beat + 1) % 4))
  if [ $beat -eq 0 ]; then
    systemd-notify WATCHDOG=1
    if [ $failures -eq 0 ] && alive && hangs; then
      echo "<4>kube-vip $1 any more: it is killed, and started again"
      kill -KILL "$child"
    fi
  fi
  sleep 0.5 &
  wait $! || true
}

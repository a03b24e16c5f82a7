# run starts kube-vip while the replica is in rotation and its API server is ready, and stops it otherwise. kube-vip
# announces the address as long as it runs. clean removes the address, and is what remains when run has ended. Go sets
# config, run, url (of the health check, at the machine's own address), vip, length (of its prefix), source (vip as ss
# takes it), own (the machine's own address), device (which has it), name, program, sha256, peers (the name of the file
# that systemd hands over), asn, router_id, metrics (a port), the times hold and keepalive in seconds, and pauses: how
# many half seconds the network may take to follow.
#
# kube-vip has no kubeconfig and asks no API server. Its own health check is not used: it would announce the address of
# a replica that was drained.

set -eu

# ready: 0 if the API server is ready, 1 if it is not, 2 if nobody listens.
ready() {
  code=$(curl --globoff --silent --insecure --noproxy '*' --max-time 2 --output /dev/null --write-out '%{http_code}' "$url") ||
    { [ $? -ne 7 ] || return 2; return 1; }
  [ "$code" = 200 ]
}

# devices: prints the interfaces that have the address.
devices() { ip -o address show to "$vip/$length" | awk '{ print $2 }'; }

# set_to NAME VALUE: changes a setting of the machine's interface, and records what it was.
set_to() {
  file=/proc/sys/net/ipv4/conf/$device/$1
  before=$(cat "$file")
  case $1=$before in
  arp_ignore=[128] | arp_announce=2) return 0 ;;
  esac
  echo "$file $before $2" >>"$run/sysctl"
  echo "$2" >"$file"
}

# hold_address: gives the machine the address, for packets that routers send. On its own network, the machine must not
# say that it has it, or neighbors would go around BGP. IPv6 does so only on the interface that has the address, and
# would use it as the source of connections.
hold_address() {
  case $own in
  *.*)
    set_to arp_ignore 1
    set_to arp_announce 2
    ip address replace "$vip/$length" dev lo
    ;;
  *) ip address replace "$vip/$length" dev lo preferred_lft 0 ;;
  esac
}

# drop: removes the address. A kube-vip that ends keeps it.
drop() {
  for held in $(devices); do ip address delete "$vip/$length" dev "$held" || true; done
  if [ -e "$run/sysctl" ]; then
    while read -r file before value; do
      if [ -e "$file" ] && [ "$(cat "$file")" = "$value" ]; then echo "$before" >"$file"; fi
    done <"$run/sysctl"
    rm -f "$run/sysctl"
  fi
}

alive() { [ -n "$child" ] && kill -0 "$child" 2>/dev/null; }

start() {
  if [ -n "$sha256" ] && ! echo "$sha256  $program" | sha256sum --check --status; then
    echo "<3>$program has not the digest that the endpoint names"
    return 0
  fi
  hold_address
  HOME=$run "$program" manager --bgp --controlplane --vip="$vip" --vipSubnet="$length" --interface=lo \
    --nodeName="$name" --localAS="$asn" --bgpRouterID="$router_id" --sourceIP="$own" --bgpHoldTimer="$hold" \
    --bgpKeepAliveInterval="$keepalive" --config-file="$CREDENTIALS_DIRECTORY/$peers" \
    --k8sConfigPath="$run/kubeconfig" --prometheusHTTPServer="127.0.0.1:$metrics" &
  child=$! born=$(date +%s) silent=0 lived=no
  echo "$child" >"$run/pid"
}

# stop: the sessions end with kube-vip, and with them the routes. The address stays until the network has followed, so
# that packets on their way find it. Connections that are left are closed while this machine can still tell their
# clients.
stop() {
  rm -f "$run/pid"
  if alive; then
    kill -TERM "$child"
    tries=0
    while alive && [ $tries -lt 10 ]; do
      tries=$((tries + 1))
      sleep 0.1
    done
    if alive; then kill -KILL "$child"; fi
  fi
  child='' tries=0
  while [ $tries -lt "$pauses" ]; do
    tries=$((tries + 1))
    sleep 0.5
    systemd-notify WATCHDOG=1
  done
  ss --no-header --kill --tcp state connected src "$source" >/dev/null 2>&1 || true
  drop
}

# hangs: whether kube-vip has stopped to answer, for about ten seconds. Its sessions have ended by then, and nobody else
# would start it again. It must have answered before: what hangs from its start is not killed again and again.
hangs() {
  if curl --silent --noproxy '*' --max-time 2 --output /dev/null "http://127.0.0.1:$metrics/metrics"; then
    silent=0 lived=yes
    return 1
  fi
  silent=$((silent + 1))
  [ $lived = yes ] && [ $silent -ge 4 ]
}

case $1 in
clean)
  drop
  ;;
run)
  child='' born=0 silent=0 lived=no failures=3 rest=0 beat=0
  trap 'stop; exit 0' TERM INT
  # kube-vip does not start without one. It names nobody.
  cat >"$run/kubeconfig" <<END
apiVersion: v1
kind: Config
clusters: [{name: none, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: none, context: {cluster: none, user: none}}]
current-context: none
users: [{name: none, user: {}}]
END
  drop
  systemd-notify --ready
  while :; do
    answer=0
    ready || answer=$?
    case $answer in
    0) failures=0 ;;
    2) failures=3 ;;
    *) failures=$((failures < 3 ? failures + 1 : 3)) ;;
    esac
    if [ -n "$child" ] && ! alive; then
      echo "<4>kube-vip has ended"
      # One that ends at once is not started again at once.
      if [ $(($(date +%s) - born)) -lt 5 ]; then rest=4; fi
      child=''
      rm -f "$run/pid"
    fi
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
    beat=$(((beat + 1) % 4))
    if [ $beat -eq 0 ]; then
      systemd-notify WATCHDOG=1
      if [ $failures -eq 0 ] && alive && hangs; then
        echo "<4>kube-vip does not answer any more: it is killed, and started again"
        kill -KILL "$child"
      fi
    fi
    sleep 0.5 &
    wait $! || true
  done
  ;;
esac

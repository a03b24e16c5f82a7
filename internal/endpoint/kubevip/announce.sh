# run starts kube-vip while the replica is in rotation and its API server is ready, and stops it otherwise. kube-vip
# announces the address as long as it runs. clean removes the address, and is what remains when run has ended. Besides
# what supervise.sh, and readiness.sh and address.sh of package agent need, Go sets name, peers (the name of the file that
# systemd hands over), asn, router_id, metrics (a port), the times hold and keepalive in seconds, and pauses: how many
# half seconds the network may take to follow.
#
# kube-vip has no kubeconfig and asks no API server. Its own health check is not used: it would announce the address of
# a replica that was drained.

silent=0

# release: removes the address. A kube-vip that ends keeps it.
release() {
  drop
  reset_interface
}

start() {
  expected || return 0
  hold_address
  HOME=$run "$program" manager --bgp --controlplane --vip="$vip" --vipSubnet="$length" --interface=lo \
    --nodeName="$name" --localAS="$asn" --bgpRouterID="$router_id" --sourceIP="$own" --bgpHoldTimer="$hold" \
    --bgpKeepAliveInterval="$keepalive" --config-file="$CREDENTIALS_DIRECTORY/$peers" \
    --k8sConfigPath="$run/kubeconfig" --prometheusHTTPServer="127.0.0.1:$metrics" &
  clock
  # shellcheck disable=SC2034 # supervise.sh reads it
  child=$! born=$now silent=0 lived=no
  echo "$child" >"$run/pid"
}

# hold_again: gives the address back to the machine, if something has removed it, such as a network manager that sets up
# its interfaces. kube-vip adds it once and announces it as long as it runs, so packets would find nobody.
hold_again() {
  alive && [ -z "$(devices)" ] || return 0
  echo "<4>the machine has lost the address that it announces: it gets it again"
  hold_address
}

# stop: the sessions end with kube-vip, and with them the routes. The address stays until the network has followed, so
# that packets on their way find it. Connections that are left are closed while this machine can still tell their
# clients.
stop() {
  rm -f "$run/pid"
  terminate 10
  child='' tries=0
  while [ $tries -lt "$pauses" ]; do
    tries=$((tries + 1))
    sleep 0.5
    systemd-notify WATCHDOG=1
  done
  disconnect
  release
}

# hangs: whether kube-vip has stopped to answer, for about ten seconds. Its sessions have ended by then, and nobody else
# would start it again. It must have answered before: what hangs from its start is not killed again and again.
hangs() {
  if curl --silent --noproxy '*' --max-time 2 --output /dev/null "http://127.0.0.1:$metrics/metrics"; then
    silent=0 lived=yes
    return 1
  fi
  silent=$((silent + 1))
  [ "$lived" = yes ] && [ $silent -ge 4 ]
}

case $1 in
clean)
  release
  ;;
run)
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
  release
  systemd-notify --ready
  while :; do
    probe
    if [ -n "$child" ] && ! alive; then ended; fi
    follow
    hold_again
    attend "does not answer"
  done
  ;;
esac

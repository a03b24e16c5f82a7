# run starts kube-vip while the replica is in rotation and its API server is ready, and stops it otherwise.
# clean removes the address, and is what remains when run has ended. Besides what supervise.sh needs, Go sets url (of
# the machine's own address), lease_path, lease, name, device, and the times duration, renew and retry in seconds.
#
# kube-vip has no rights but to read and update the endpoint's Lease. It is asked nothing: this program reads
# the Lease with the same certificate, and whether the machine has the address.

written='' moved=0 strangers=0

# field NAME: prints a field of the kubeconfig that is base64.
field() { sed -n "s/^[ -]*$1: //p" "$CREDENTIALS_DIRECTORY/kubeconfig" | head -n 1 | base64 -d; }

# ask: sets ready, and holder if the Lease can be read (known). Both are requested in one connection.
ask() {
  ready=no known=no holder=''
  codes=$(curl --silent --noproxy '*' --max-time 2 --cacert "$run/ca.crt" --cert "$run/client.crt" \
    --key "$run/client.key" --write-out '%{http_code} ' --output "$run/readyz" "$url/readyz" \
    --output "$run/lease.json" "$url$lease_path") || true
  case $codes in
  '200 200 ') ready=yes known=yes ;;
  '200 '*) ready=yes ;;
  *' 200 ') known=yes ;;
  esac
  if [ $known = yes ]; then
    read_holder
    clock
    echo "$now $strangers" >"$run/seen"
  fi
}

read_holder() {
  holder=$(sed -n 's/.*"holderIdentity": *"\([A-Za-z0-9.-]*\)".*/\1/p' "$run/lease.json" | head -n 1)
}

start() {
  expected || return 0
  drop
  kubernetes_addr=$url vip_arpRate=500 HOME=$run "$program" manager --arp --controlplane --leaderElection \
    --vip="$vip" --vipSubnet="$length" --interface="$device" --namespace=kube-system --leaseName="$lease" \
    --leaseDuration="$duration" --leaseRenewDuration="$renew" --leaseRetry="$retry" --nodeName="$name" \
    --k8sConfigPath="$CREDENTIALS_DIRECTORY/kubeconfig" --prometheusHTTPServer= &
  clock
  child=$! born=$now written='' moved=$now lived=no
  echo "$child" >"$run/pid"
}

# again CURL-OPTIONS…: asks for the Lease alone, or changes it. Succeeds if the answer is 200.
again() {
  code=$(curl --silent --noproxy '*' --max-time 2 --cacert "$run/ca.crt" --cert "$run/client.crt" \
    --key "$run/client.key" --write-out '%{http_code}' --output "$run/lease.json" "$@" "$url$lease_path") || return 1
  [ "$code" = 200 ] && read_holder
}

# release_lease: lets another machine get the Lease, by compare-and-swap (resourceVersion). What kube-vip had sent before
# it was killed may still change it.
release_lease() {
  for _ in 1 2 3 4 5; do
    if again; then
      [ "$holder" = "$name" ] || return 0
      sed 's/"holderIdentity": *"[^"]*"/"holderIdentity":""/' "$run/lease.json" >"$run/released.json"
      ! again --request PUT --header 'Content-Type: application/json' --data-binary "@$run/released.json" || return 0
    fi
    clock
    [ "$now" -lt "$limit" ] || return 1
    sleep 0.2
  done
  return 1
}

# give: lets another machine take the address before this one drops it, so that connections find either. A
# kube-vip that is terminated drops the address first, and nobody has it until another one tries to get the
# Lease. Neighbors learn the new holder from its ARP announcements, which are 0.5 seconds apart. Connections that are
# left here are closed while this machine can still tell their clients, also if the Lease cannot be released. It waits
# for one and a half $retry at most, which systemd's limits allow (WatchdogSec and TimeoutStopSec), also if the API server
# of this machine stops answering.
give() {
  [ -n "$(devices)" ] && again && [ "$holder" = "$name" ] || return 0
  kill -KILL "$child"
  clock
  limit=$((now + retry * 3 / 2 + 2))
  release_lease || limit=$now
  while [ "$now" -lt "$limit" ]; do
    sleep 0.1
    if again && [ -n "$holder" ] && [ "$holder" != "$name" ]; then
      sleep 0.7
      break
    fi
    clock
  done
  disconnect
}

# on_term: ends this program by stop.
ending=no
on_term() { trap 'stop; exit 0' TERM INT; }

# stop: kube-vip also releases the Lease when it is terminated. If its API server does not answer, it is killed. What
# has begun is finished before this program is ended: the address would go before another machine has it.
stop() {
  trap 'ending=yes' TERM INT
  rm -f "$run/pid"
  if alive; then give; fi
  terminate 30
  child=''
  drop
  on_term
  [ $ending = no ] || exit 0
}

# login: writes what curl needs.
login() {
  field certificate-authority-data >"$run/ca.crt"
  field client-certificate-data >"$run/client.crt"
  field client-key-data >"$run/client.key"
}

# terminated: whether $child was told to end (SIGTERM), which it does not see while it is stopped, or has ended.
terminated() {
  pending=$(sed -n 's/^ShdPnd:[[:space:]]*//p' "/proc/$child/status" 2>/dev/null) || pending=''
  [ -z "$pending" ] || [ $((0x$pending & 0x4000)) -ne 0 ]
}

# wait_for SECONDS COMMAND…: waits until the command succeeds.
wait_for() {
  tries=$(($1 * 10))
  shift
  until "$@"; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || return 1
    sleep 0.1
  done
}

no_pods() { [ -z "$(pods)" ]; }

# inherit MANIFEST: ends the kube-vip of a static pod, which elects by the same Lease. As the holder it would drop the
# address when the kubelet terminates it. So it is stopped first, and killed when another machine may get the address.
# The kubelet does not start a container again that it terminates. The manifest is kept as pending until clients reach
# the machine by the endpoint's own kube-vip (complete.sh). Without a manifest, a takeover that was cut off goes on.
inherit() {
  child=$(pods | head -n 1)
  stopped=no
  if [ -n "$child" ] && [ -n "$(devices)" ]; then
    stopped=yes
    trap 'kill -CONT "$child" 2>/dev/null; rm -rf "$run"' EXIT
    kill -STOP "$child"
  fi
  if [ -e "$1" ]; then
    mkdir -p "$config/inherited"
    cp -p "$1" "$config/inherited/.new"
    sync "$config/inherited/.new"
    mv "$config/inherited/.new" "$config/inherited/${1##*/}.pending"
    sync "$config/inherited" "$config"
    rm "$1"
    sync "${1%/*}"
  fi
  if [ $stopped = yes ]; then
    if ! wait_for 60 terminated; then
      echo "the kubelet does not terminate kube-vip, although $1 is gone" >&2
      exit 1
    fi
    give
    if alive; then kill -KILL "$child"; fi
    drop
  fi
  if ! wait_for 60 no_pods; then
    echo "kube-vip of the static pod still runs, although $1 is gone" >&2
    exit 1
  fi
}

# hangs: whether kube-vip has written nothing for twice as long as a Lease lasts. Whether it has the Lease or wants it, it
# sends a request every $retry seconds. Without the Lease, nobody else would notice. It must have lived before: what
# hangs from its start is not killed again and again.
hangs() {
  count=$(sed -n 's/^wchar: //p' "/proc/$child/io" 2>/dev/null) || count=''
  clock
  if [ -z "$count" ] || [ "$count" != "$written" ]; then
    [ $((now - born)) -le $((retry + 5)) ] || lived=yes
    written=$count moved=$now
    return 1
  fi
  [ "$lived" = yes ] && [ $((now - moved)) -ge $((2 * duration)) ]
}

case $1 in
clean)
  drop
  ;;
inherit) # MANIFEST KUBECONFIG, as root and outside of the unit
  run=/run/kube-vip-inherit # also swept by apply.sh and clean.sh: it has a key, and a killed process removes nothing
  rm -rf "$run"
  mkdir -m 700 "$run"
  trap 'rm -rf "$run"' EXIT
  CREDENTIALS_DIRECTORY=$run
  cp "$3" "$run/kubeconfig"
  login
  inherit "$2"
  ;;
run)
  on_term
  login
  systemd-notify --ready
  while :; do
    ask
    if [ $ready = yes ]; then failures=0; else failures=$((failures < 3 ? failures + 1 : 3)); fi
    # Another machine holds the Lease, and this one has the address: kube-vip hangs, or could not remove it. When the
    # holder changes, that is so for a moment.
    if [ -n "$holder" ] && [ "$holder" != "$name" ] && [ -n "$(devices)" ]; then
      strangers=$((strangers + 1))
      if [ $strangers -ge 2 ]; then
        echo "<4>$holder holds the Lease, and this machine has the address: removed"
        if alive; then kill -KILL "$child"; fi
        child=''
        drop
      fi
    else
      strangers=0
    fi
    if ! alive; then
      [ -z "$child" ] || ended
      [ -z "$(devices)" ] || drop
    fi
    follow
    attend "sends nothing"
  done
  ;;
esac

# Starts a drill: brings the snapshot and starts the unit that verifies, restores and serves it. It returns when that
# unit's API server starts, and prints what is known of the data. The unit has a network of its own, in which there is
# nothing but it. $kind is "bucket", "fetch", "snapshot" (the file $snapshot) or "newest" (of the snapshots on the
# machine); "" means the bucket of the member if it has one, and otherwise "newest". Of a bucket, it is the newest one of
# the etcd cluster $etcd_cluster. Standard input has lines "NAME BASE64", the files of $run, among them job.sh. $data is
# the member's data directory, $limit the longest time of the unit in seconds. A snapshot that is named after a time more
# than $ahead seconds from now is not the newest one.
received=$work/received.db
fetcher=$unit-fetch.service
started=''

millis() { echo $(($(date +%s%N) / 1000000)); }

cleanup() { [ -n "$started" ] || clear_up; }

# watch starts the guard, which removes the data $limit seconds from now, unless the unit of the drill runs by then,
# which does it itself. It needs nobody: who kills this script with SIGKILL does not let it clean up, and the snapshot
# is fetched, and decrypted, by a unit that goes on.
watch() {
  systemd-run --quiet --collect --unit="$guard" --on-active="$limit" --timer-property=AccuracySec=1s /bin/sh -c \
    "systemctl stop $fetcher $unit.service; rm -rf -- $work $run"
}

# keep_files stores what the unit reads, in memory: keys are gone after a power cut. The age identity gets into no file.
keep_files() {
  identity=''
  mkdir "$run"
  while read -r name text; do
    if [ "$name" = identity ]; then
      identity=$(printf '%s' "$text" | base64 -d)
    else
      printf '%s' "$text" | base64 -d >"$run/$name"
    fi
  done
}

# find_snapshot says which snapshot it is: $snapshot is its path, and $label its name if that is known.
find_snapshot() {
  if [ -z "$kind" ]; then
    kind=newest
    [ ! -e "$config" ] || kind=bucket
  fi
  label=''
  case $kind in
  newest)
    latest=$(date -u -d "@$(($(date +%s) + ahead))" +%Y%m%dT%H%M%SZ)
    snapshot=$(find "$root/scheduled" "$root/requested" "$root/upgrades" -maxdepth 1 -name '*.db' 2>/dev/null |
      sed 's|^.*/||' | grep -x '[0-9]\{8\}T[0-9]\{6\}Z-[a-z0-9.-]*\.db' |
      awk -v latest="$latest" 'substr($0, 1, 16) <= latest' | sort | tail -n 1)
    [ -n "$snapshot" ] || fail "there is no snapshot in $root whose name is not of a time that is yet to come"
    snapshot=$(find "$root" -mindepth 2 -maxdepth 2 -name "$snapshot" | head -n 1)
    ;;
  snapshot) [ -f "$snapshot" ] || fail "$snapshot is not a file" ;;
  *) snapshot=$received ;;
  esac
  [ "$snapshot" = "$received" ] || label=${snapshot##*/}
}

# expected prints the size that the snapshot will about have.
expected() {
  if [ "$snapshot" = "$received" ]; then
    stat -c %s "$data/member/snap/db" 2>/dev/null || echo 0
  else
    stat -c %s "$snapshot"
  fi
}

# limits keeps the drill from taking from the member what it needs: it gets what is left of processors and disks, and
# at most half of the memory that is free. It is the first that ends if there is too little.
limits() {
  available=$(($(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' /proc/meminfo) * 1024))
  memory=$((available / 2))
  [ "$memory" -ge "$memory_min" ] ||
    fail "not enough memory: a drill may use half of what is available ($available bytes), and needs $memory_min"
  systemctl --runtime set-property "$slice" CPUWeight=1 IOWeight=1 MemoryMax="$memory" MemorySwapMax=0 TasksMax=2000
}

# modest prints the properties of every service of a drill.
modest() {
  printf '%s\n' --slice="$slice" --property=Nice=19 --property=IOSchedulingClass=idle --property=OOMScoreAdjust=1000
}

# bring fetches the snapshot. The guard may not end what is brought in time.
bring() {
  [ "$snapshot" = "$received" ] || return 0
  in_time=--property=RuntimeMaxSec=$((limit - 60))
  if [ "$kind" = bucket ]; then
    store=$(printf '%s\n' /opt/kube/kube-snapshot-store/*/kube-snapshot-store | sort -V | tail -n 1)
    if [ ! -x "$store" ] || [ ! -e "$config" ]; then fail "the member on this machine has no bucket for its snapshots"; fi
    # shellcheck disable=SC2034 # of restore_functions.sh
    stored=''
    # shellcheck disable=SC2046 # words without spaces
    printf '%s\n' "$identity" | fetch_stored $(modest) "$in_time"
    label=$(sed -n 's/^\([A-Za-z0-9._-]*\) is in .*/\1/p' "$work/fetched")
  else
    # shellcheck disable=SC2046 # words without spaces
    fetch 'the fetch commands failed' $(modest) "$in_time"
  fi
  [ -f "$received" ] || fail "the fetch commands have not written the file in their variable SNAPSHOT"
}

# others prints what else is in $root.
others() { find "$root" -mindepth 1 -maxdepth 1 ! -path "$work" -name '[A-Za-z0-9]*' ! -name '*[!A-Za-z0-9._-]*'; }

# start_unit starts the scratch servers. ExecStopPost removes their data, however the unit ends. They may write to $root,
# and to nothing else in it: a path that may be written is a mount in the unit, also for ExecStopPost of systemd 252,
# which could not remove $work then.
start_unit() {
  # shellcheck disable=SC2046 # words without spaces
  systemd-run --quiet --collect --unit="$unit" $(modest) --property=PrivateNetwork=yes --property=ProtectSystem=strict \
    --property=ReadWritePaths="$root $run" --property=ReadOnlyPaths="$(others)" --property=PrivateTmp=yes \
    --property=NoNewPrivileges=yes --property=CapabilityBoundingSet="CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH" \
    --property=LimitNOFILE=65536 --property=RuntimeMaxSec="$limit" --property=TimeoutStopSec=20 --property=KillMode=mixed \
    --property=ExecStopPost="+/bin/rm -rf -- $work $run/tls.key" /bin/sh -eu "$run/job.sh"
  end "$guard.timer"
}

# open_door lets the provider connect to the API server of the unit's network, at a free port of the loopback address.
open_door() {
  port=$first_port
  # shellcheck disable=SC2046 # words without spaces
  until systemd-run --quiet --collect --unit="$unit-door" $(modest) --socket-property=ListenStream=127.0.0.1:"$port" \
    --socket-property=BindsTo="$unit.service" --property=BindsTo="$unit.service" --property=PrivateNetwork=yes --property=JoinsNamespaceOf="$unit.service" --property=User=nobody \
    --property=ProtectSystem=strict --property=NoNewPrivileges=yes --property=CapabilityBoundingSet= \
    "$proxy" 127.0.0.1:6443 >/dev/null 2>"$work/log"; do
    port=$((port + 1))
    [ "$port" -lt "$((first_port + 20))" ] || fail "no port is free for the drill: $(tail -n 1 "$work/log" | cut -c 1-600)"
    systemctl reset-failed "$unit-door.socket" 2>/dev/null || true
  done
}

# await_report waits until the unit starts its API server.
await_report() {
  until [ -e "$run/report" ]; do
    case $(systemctl show --property=ActiveState --value "$unit.service") in
    active | activating | reloading) sleep 0.1 ;;
    *)
      [ ! -e "$run/report" ] || break
      said=$(tail -n 3 "$run/error" 2>/dev/null | cut -c 1-900)
      fail "${said:-the unit of the drill ended: out of memory, or of time}"
      ;;
    esac
  done
}

main() {
  umask 077
  proxy=''
  for place in /usr/lib/systemd/systemd-socket-proxyd /lib/systemd/systemd-socket-proxyd; do
    [ ! -x "$place" ] || proxy=$place
  done
  [ -n "$proxy" ] || fail "systemd-socket-proxyd is not installed"
  clear_up
  trap cleanup EXIT
  trap 'exit 1' HUP INT TERM PIPE # the last if the provider has ended
  mkdir -p "$root" "$work"
  chmod 0700 "$root"
  watch
  keep_files
  find_snapshot
  room "$(($(expected) * 2))"
  limits
  begun=$(millis)
  bring
  printf 'step fetch %s\n' "$(($(millis) - begun))"
  [ "$snapshot" != "$received" ] || room "$(stat -c %s "$snapshot")"
  printf '%s\n' "$snapshot" >"$run/snapshot"
  start_unit
  open_door
  await_report
  cat "$run/report"
  printf 'port %s\nsource %s\nname %s\n' "$port" "$kind" "$label"
  started=yes
}

main

# Functions that make the data of a cluster's only member from a snapshot in $work, and prove that the etcd which
# will run serves it. $tools is the directory of the programs; $name, $peer and $token form the new cluster; $bump
# is by how much the revision grows ("auto": to the milliseconds since 1970, or by 1000000000 if it is beyond them).
# $snapshot is the file. Either $commands fetch it to $received, with the variables of the file $environment, or the
# program $store does, from the bucket of the configuration $config: both in the unit $fetcher. $reserve is the space
# in bytes that stays free below $root.
scratch=''
unhashed='' # --skip-hash-check for a database that etcd has written on this machine just now, which has no hash

fail() {
  printf '%s\n' "$*" >&2
  exit 1
}

# halt ends the scratch etcd.
halt() {
  [ -n "$scratch" ] || return 0
  kill "$scratch" 2>/dev/null || true
  wait "$scratch" 2>/dev/null || true
  scratch=''
}

# ask COMMAND…: etcdctl for the scratch etcd, which listens on a socket only.
ask() { (cd "$work/run" && "$tools/etcdctl" --endpoints=unix://client:1 --command-timeout=10m "$@"); }

# serve DIRECTORY FLAG…: starts the scratch etcd and waits until it serves reads, as long as it runs. Data has the alarms
# of its members, so "endpoint health" would fail for ever if one had no space.
serve() {
  directory=$1
  shift
  rm -rf "$work/run"
  mkdir "$work/run"
  (cd "$work/run" && exec "$tools/etcd" --data-dir="$directory" --name="$name" --listen-client-urls=unix://client:1 \
    --listen-peer-urls=unix://peer:1 --advertise-client-urls=http://127.0.0.1:1 --initial-advertise-peer-urls="$peer" \
    --initial-cluster="$name=$peer" --initial-cluster-token="$token" --quota-backend-bytes="$quota" \
    --log-level=warn "$@" >"$work/log" 2>&1) &
  scratch=$!
  until heard=$(cd "$work/run" &&
    "$tools/etcdctl" --endpoints=unix://client:1 --command-timeout=2s get health 2>&1 >/dev/null); do
    case $heard in
    *'corrupt cluster'*) fail "this data has the alarm CORRUPT, because the members' data differed: use an older snapshot" ;;
    *'user name is empty'*) fail "this data has etcd's own authentication enabled: the provider uses certificates only" ;;
    esac
    kill -0 "$scratch" 2>/dev/null || fail "etcd does not start with this data: $(tail -n 5 "$work/log" | cut -c 1-600)"
    sleep 0.1
  done
}

# room BYTES: fails if there is not that much space, and what etcd itself needs.
room() {
  have=$(df -B1 --output=avail "$root" | tail -n 1)
  [ "$have" -ge "$(($1 + reserve))" ] || fail "not enough space in $root: $(($1 + reserve)) bytes are required, $have are free"
}

# bytes FILE…: the sum of their sizes.
bytes() { du -c -B1 --apparent-size "$@" | tail -n 1 | cut -f 1; }

# fetch FAILURE FLAG…: runs $commands as the service $fetcher, like the upload of scheduled snapshots, with the input of
# fetch. What they bring may not fill the disk. The service of a run that was cut off was stopped before. systemd would
# replace ${…} in the commands, so they are in a variable. FAILURE begins the message if they fail.
fetch() {
  failure=$1
  shift
  most=$(($(df -B1 --output=avail "$root" | tail -n 1) - reserve))
  set -- --quiet --wait --pipe --collect --unit="$fetcher" --property=RuntimeMaxSec=1h --property=UMask=0077 \
    --property=LimitFSIZE="$most" "$@"
  [ -z "$environment" ] || set -- "$@" --property=EnvironmentFile="$environment"
  # shellcheck disable=SC2016 # the service's shell expands it
  systemd-run "$@" --setenv=SNAPSHOT="$received" --setenv=FETCH_COMMANDS="$commands" \
    /bin/sh -euc 'eval "$FETCH_COMMANDS"' >/dev/null 2>"$work/log" ||
    fail "$failure: $(tail -n 3 "$work/log" | cut -c 1-600)"
}

# fetch_stored FLAG…: fetches the snapshot $stored ("": the newest verified one) from the bucket that the file $config
# describes, with the program $store. If $etcd_cluster is set, the newest is that of the etcd cluster with this ID, if
# there is one. The age identity, or nothing, is on standard input, and gets into no file. What the program prints is in
# $work/fetched.
fetch_stored() {
  # The commands name no path: what the machine has must not become part of them.
  set -- "$@" --setenv=STORE="$store" --setenv=CONFIG="$config" --setenv=STORED="$stored" \
    --setenv=STORED_OF="${etcd_cluster:-}" --setenv=FETCHED="$work/fetched"
  # shellcheck disable=SC2016 # the service's shell expands it
  commands='identity=$(cat)
    set -- -newest
    [ -z "$STORED_OF" ] || set -- "$@" -etcd "$STORED_OF"
    [ -z "$STORED" ] || set -- -name "$STORED"
    [ -z "$identity" ] || set -- "$@" -identity -
    printf "%s\n" "$identity" | "$STORE" -config "$CONFIG" get -out "$SNAPSHOT" "$@" >"$FETCHED"'
  fetch 'the snapshot was not fetched from the bucket' "$@"
}

# verify checks that the snapshot is whole and the structure of its database. build checks its integrity hash: etcdutl
# hashes what it copies, and sha256sum takes longer than all of that.
verify() {
  [ -f "$snapshot" ] || fail "$snapshot is not a file"
  size=$(stat -c %s "$snapshot")
  [ "$((size % 512))" -ne 0 ] || fail "$snapshot has no integrity hash: it is a copy of a database and not a snapshot of etcd"
  [ "$((size % 512))" -eq 32 ] || fail "$snapshot is incomplete: its size is $size bytes"
  # shellcheck disable=SC2034 # of drills
  digest=$(tail -c 32 "$snapshot" | od -An -v -tx1 | tr -d ' \n')
  examine || damaged
}

# examine checks the structure of the database in the file $snapshot, and reads what it is. It may run beside build.
examine() {
  size=$(stat -c %s "$snapshot")
  saved=$(stat -c %Y "$snapshot")
  status=$("$tools/etcdutl" snapshot status "$snapshot" --write-out=json 2>"$work/examined") || return 1
  revision=$(printf '%s' "$status" | sed -n 's/.*"revision":\([0-9]*\).*/\1/p')
}

# damaged fails for a database whose structure is wrong, or whose hash says that it was changed since it was saved.
damaged() {
  [ -n "$unhashed" ] || [ "$digest" = "$(head -c $((size - 32)) "$snapshot" | sha256sum | cut -d ' ' -f 1)" ] || corrupt
  fail "$snapshot is damaged: $(tail -n 1 "$work/examined" | cut -c 1-600)"
}

corrupt() { fail "$snapshot is corrupt: its SHA-256 does not match its content"; }

# choose_bump makes $bump a number.
choose_bump() {
  [ -n "$revision" ] || fail "the status of $snapshot has no revision"
  if [ "$bump" = auto ]; then
    bump=$(($(date +%s) * 1000 - revision))
    [ "$bump" -gt 0 ] || bump=1000000000
  fi
}

# build restores the snapshot into $work/data. choose_bump comes first.
build() {
  set --
  [ "$bump" -eq 0 ] || set -- --bump-revision="$bump" --mark-compacted
  [ -z "$unhashed" ] || set -- "$@" "$unhashed"
  "$tools/etcdutl" snapshot restore "$snapshot" --data-dir="$work/data" --name="$name" --initial-cluster="$name=$peer" \
    --initial-cluster-token="$token" --initial-advertise-peer-urls="$peer" "$@" >"$work/log" 2>&1 && return
  ! grep -q 'expected sha256' "$work/log" || corrupt
  fail "$snapshot cannot be restored by this version of etcd: $(tail -n 3 "$work/log" | cut -c 1-600)"
}

# see FILE KEY FLAG…: reads from the data into a file.
see() {
  seen=$1
  shift
  ask get "$@" >"$seen" 2>"$work/log" || fail "the restored data cannot be read: $(tail -n 1 "$work/log" | cut -c 1-600)"
}

# see_ca reads the ConfigMap with the root certificate into $work/ca, and makes $objects the prefix of what API servers
# store: /registry, unless they run with another --etcd-prefix.
see_ca() {
  ca=configmaps/kube-system/kube-root-ca.crt
  objects=/registry
  see "$work/ca" "$objects/$ca" --print-value-only
  [ ! -s "$work/ca" ] || return 0
  see "$work/keys" '' --prefix --keys-only
  other=$(sed -n "s|^\(/.*\)/$ca\$|\1|p" "$work/keys" | head -n 1)
  rm "$work/keys"
  [ -n "$other" ] || return 0
  objects=$other
  see "$work/ca" "$objects/$ca" --print-value-only
}

# report prints what tells whether the data fits the cluster: its root certificate, how objects are encrypted, and which
# resources have unencrypted ones. Only the beginning of encrypted values, and three whole ones of a resource, leave
# the machine. Of the Secrets it prints how many it looked at, and how many of them are encrypted.
report() {
  printf 'token %s\nsize %s\nsaved %s\nrevision %s\nbump %s\nkeys %s\n' "$token" "$size" "$saved" "$revision" "$bump" \
    "$(printf '%s' "$status" | sed -n 's/.*"totalKey":\([0-9]*\).*/\1/p')"
  see_ca
  printf 'ca %s\n' "$(base64 -w 0 "$work/ca")"
  for resource in secrets configmaps; do
    see "$work/values" "$objects/$resource/" --prefix --limit=500 --write-out=json
    tr ',' '\n' <"$work/values" |
      sed -n 's/^"value":"\([^"]*\)".*/\1/p' | awk -v resource="$resource" '
        /^azhzOmVu/ {
          print "head " substr($0, 1, 64)
          if (n < 3 && length($0) < 65536) { n++; print "sample " $0 }
          sealed++
          next
        }
        !clear++ { print "unencrypted " resource }
        END { if (resource == "secrets") print "secrets " NR " " sealed + 0 }'
  done
}

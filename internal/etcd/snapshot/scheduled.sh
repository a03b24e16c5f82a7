# Run by etcd-snapshot.service at each time of etcd-snapshot.timer, on the machine of
# every member. The machine of the leader saves; every machine uploads its own snapshots.

# The version in the unit, also during an upgrade or a rollback.
tools=$(sed -n -e 's|^ExecStart=\(/[^ ]*\)/etcd .*|\1|p' -e 's|^ *terraform-provider-kube/tools: \(/[^ ]*\)$|\1|p' "$unit" "$pod" 2>/dev/null || true)

if [ "${1:-}" = save ]; then # a separate process, so that any failure ends it
  file=$2
  # shellcheck disable=SC2034 # of save.sh
  need=$3
  save
  exit
fi

failed=''
fail() {
  printf '%s\n' "$*" >&2
  failed=yes
}

# value NAME: prints a field of etcdctl's last output.
value() { printf '%s\n' "$said" | sed -n "s/^\"$1\" : //p"; }

# ask waits up to a minute for a member that is being restarted, and for a leader.
ask() {
  for try in 1 2 3 4 5 6 7 8 9 10 11 12; do
    if said=$("$tools/etcdctl" --endpoints="$endpoint" --cacert="$pki/ca.crt" --cert="$pki/healthcheck-client.crt" --key="$pki/healthcheck-client.key" \
      --command-timeout=5s --write-out=fields endpoint status 2>&1); then
      leader=$(value Leader)
      [ "${leader:-0}" = 0 ] || return 0
    fi
    [ "$try" = 12 ] || sleep 5
  done
  return 1
}

# snapshots [DIRECTORY]: lists the snapshots, the oldest first.
snapshots() { (cd "${1:-$dir}" && printf '%s\n' *.db) | grep '^[0-9]\{8\}T[0-9]\{6\}Z-[a-z0-9.-]*\.db$' | sort || true; }

# send uploads the snapshots that have not been uploaded: the newest first, because a backlog may take longer than a run,
# then the newest three of each former etcd cluster, which may be all that is left of what a restore has replaced, and
# then the others, the oldest first. One that is damaged, or that fails alone, may not keep the others here. A server or
# commands that fail twice in a row are not tried for each of them. The uploads end before the run has to.
send() {
  newest=$(snapshots | tail -n 1)
  failures=0
  # shellcheck disable=SC2046,SC2086 # names without spaces, or none
  {
    send_each "$dir" $newest || return 0
    for former in "$dir"-*; do
      [ ! -e "$former/.upload" ] || send_each "$former" $(snapshots "$former" | tail -n 3 | sort -r) || return 0
    done
    send_each "$dir" $(snapshots | grep -vxF "$newest") || return 0
  }
}

# send_each DIRECTORY NAME...: uploads those of the snapshots that have not been uploaded. It fails if no other one is to
# be tried in this run.
send_each() {
  at=$1
  shift
  for name; do
    [ ! -e "$at/$name.sent" ] || continue
    status=0
    deliver "$at/$name" || status=$?
    tried=yes
    if [ "$status" -eq 0 ]; then
      : >"$at/$name.sent"
      failures=0
      echo "$name was uploaded"
    elif [ "$(remaining)" -le 0 ]; then
      fail "$name was not uploaded: the uploads must end $((upload_limit / 60)) minutes after the start of a run;" \
        "the next run tries again"
      return 1
    elif [ -n "$store" ] && [ "$status" -eq 3 ]; then
      fail "$name in $at is damaged: remove it"
    else
      fail "$name was not uploaded; the next run tries again"
      failures=$((failures + 1))
      [ "$failures" -lt 2 ] || return 1
    fi
  done
}

# deliver PATH: uploads a snapshot, by the program or by the commands. The program ends with 3 if it is damaged.
deliver() {
  seconds=$(remaining)
  [ "$seconds" -gt 0 ] || return 1
  if [ -n "$store" ]; then
    timeout -k 30 "$seconds" "$store" -config "$upload" put "$1" </dev/null
  else
    (cd / && SNAPSHOT="$1" SNAPSHOT_NAME="${1##*/}" CLUSTER="$cluster" MEMBER="$member" \
      timeout -k 30 "$seconds" /bin/sh -eu "$upload" </dev/null)
  fi
}

# uptime prints the seconds since the start of the machine, which no change of its clock alters.
uptime() { cut -d . -f 1 /proc/uptime; }

# limit prints three quarters of the seconds that a run may last, after which the uploads must have ended, so that the
# rest of the run follows. A drop-in can change the limit of the unit, which is like "1h 30min", or "infinity".
limit() {
  systemctl show --property=TimeoutStartUSec --value etcd-snapshot.service 2>/dev/null | awk '
    BEGIN {
      s["s"] = 1; s["min"] = 60; s["h"] = 3600; s["d"] = 86400
      s["w"] = 604800; s["month"] = 2629800; s["y"] = s["infinity"] = 31557600
    }
    { for (i = 1; i <= NF; i++) { unit = $i; sub(/^[0-9.]+/, "", unit); sum += (unit == $i ? 1 : $i) * s[unit] } }
    END { printf "%d\n", (sum ? sum : 3600) * 3 / 4 }'
}

# remaining prints the seconds that are left for uploads.
remaining() { echo $((started + upload_limit - $(uptime))); }

# sweep removes old snapshots in the bucket, and the parts of uploads that were cut, after an upload. It may have failed:
# while each of them is cut, nothing else would remove the parts.
sweep() {
  [ -n "$store" ] && [ "$store_kept" -gt 0 ] && [ -n "$tried" ] || return 0
  "$store" -config "$upload" prune </dev/null || fail "old snapshots in the bucket were not removed; the next run tries again"
}

# removable lists the snapshots that may be removed, in the order of removal. The new one
# is kept even if the clock is wrong.
removable() {
  for name in $(snapshots); do
    [ -z "$upload" ] || [ -e "$dir/$name.sent" ] && [ "$name" != "$file" ] && echo "$name"
  done
  for name in $(snapshots); do
    [ -z "$upload" ] || [ -e "$dir/$name.sent" ] || [ "$name" = "$file" ] || echo "$name"
  done
}

# prune [uploaded]: removes the oldest snapshots, or only those of them that were uploaded, so that $kept are left.
prune() {
  more=$(($(snapshots | wc -l) - kept))
  [ "$more" -gt 0 ] || return 0
  for name in $(removable | head -n "$more"); do
    if [ -n "$upload" ] && [ ! -e "$dir/$name.sent" ]; then
      [ -z "${1:-}" ] || return 0
      fail "$name was never uploaded and is removed: at most $kept snapshots are kept"
    fi
    rm -f "$dir/$name" "$dir/$name.sent"
  done
}

# part moves the snapshots of an earlier cluster of this machine away: they are not this one's to remove. The cluster of
# the bundle stays when all members are destroyed and made again, and that of etcd does not. Those of a former etcd
# cluster are still uploaded from there: their names have its ID. Those of another bundle belong in no bucket of this one.
part() {
  part_by cluster_id "$dir/.cluster"
  part_by etcd_cluster_id "$dir/.etcd-cluster"
}

# part_by FIELD FILE: does so if a field of the record is not what it was, which is in a file.
part_by() {
  id=$(sed -n 's/^ *"'"$1"'": "\([0-9a-f]*\)",*$/\1/p' "$record" | head -n 1)
  [ -n "$id" ] || return 0
  before=$(head -c 64 "$2" 2>/dev/null | tr -cd '0-9a-f' || true)
  [ "$before" != "$id" ] || return 0
  [ "$1" != cluster_id ] || rm -f "$dir"-*/.upload
  if [ -n "$before" ] && [ -n "$(snapshots)" ]; then
    mkdir -p "$dir-$before"
    [ "$1" = cluster_id ] || : >"$dir-$before/.upload"
    for name in $(snapshots); do
      [ ! -e "$dir/$name.sent" ] || mv -f -- "$dir/$name.sent" "$dir-$before/$name.sent"
      mv -f -- "$dir/$name" "$dir-$before/$name"
    done
    echo "the snapshots of the cluster $before, which this machine had before, are in $dir-$before"
  fi
  printf '%s\n' "$id" >"$2"
}

# tidy removes what a save has left that was cut off, of up to the size of the database, unless one is running. This
# machine may save none for long.
tidy() (
  root=${dir%/*}
  cd -P -- "${root%/*}/" || exit
  own "${root##*/}"
  own "${dir##*/}"
  set -- ./*.part
  [ -e "$1" ] || exit 0
  exec 9>.lock
  flock -n 9 || exit 0
  rm -f "$@"
)

umask 077
started=$(uptime)
upload_limit=$(limit)
mkdir -p "$dir"
chmod 0700 "${dir%/*}" "$dir"
part
tidy || fail "what a save that was cut off has left in $dir was not removed"
file=''
tried=''
if ! ask; then
  fail "the member at $endpoint does not answer or has no leader: $said"
elif [ "$leader" != "$(value MemberID)" ]; then
  echo "another member is the leader; its machine saves the snapshot"
else
  # The name says which etcd cluster it is of: each bootstrap has another ID, also with the same bundle.
  id=$(value ClusterID | grep -x '[0-9]\{1,20\}' || true)
  file=$(date -u +%Y%m%dT%H%M%SZ)-$member${id:+.etcd-$(printf %x "$id")}.db
  rm -f "$dir/$file.sent"
  if /bin/sh -eu "$0" save "$file" $(($(value DBSize) + reserve)); then
    newest=$(snapshots | tail -n 1)
    [ "$newest" = "$file" ] ||
      fail "$newest in $dir has a later time than now, so that it passes for the newest: if this machine's clock is" \
        "behind, correct it; if a clock was ahead when that file was saved, move the file away"
  else
    fail "no snapshot saved"
  fi
fi
prune uploaded # before send, which can take long; it may still upload the others
[ -z "$upload" ] || send
prune # before sweep, which a slow server can keep until the run is ended
sweep
[ -z "$failed" ]

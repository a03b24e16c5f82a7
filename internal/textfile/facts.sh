# Replaces $output with facts about this machine, in the text format of Prometheus. What is not known is left out.
# All series have the label "resource", so that the files of several resources on a machine never have the same series.
# $programs has lines "name unit", or "name pod" for a static pod, $certificates lines "file [host:port that serves it]",
# $announced lines "address who says whether it is announced".
umask 077
set -f

if [ "${1:-}" = remove ]; then
  rm -f "$output" "$output.new"
  exit
fi
[ -d "${output%/*}" ] || exit 0 # node_exporter is not installed yet

describe() { # METRIC TYPE HELP
  printf '# HELP %s %s\n# TYPE %s %s\n' "$1" "$3" "$1" "$2"
}

series() { # METRIC LABELS: the name of a series
  printf '%s{resource="%s"%s}' "$1" "$resource" "${2:+,$2}"
}

sample() { # METRIC LABELS VALUE: nothing without a value
  [ -z "$3" ] || printf '%s %s\n' "$(series "$1" "$2")" "$3"
}

# earlier prints what the last round wrote of a series: facts that last have their beginning there, and outlive a reboot.
earlier() { # METRIC LABELS
  [ ! -f "$output" ] || grep -F -- "$(series "$1" "$2") " "$output" | sed -n 's/^.*} \([0-9]\{1,12\}\)$/\1/p' | head -n 1
}

modified() { # FILE
  [ ! -e "$1" ] || stat -c %Y -- "$1"
}

# ends prints when the first certificate on standard input ends.
ends() {
  text=$(openssl x509 -noout -enddate 2>/dev/null) && date -d "${text#notAfter=}" +%s
}

on_disk() { # FILE
  [ -r "$1" ] || return 0
  case $1 in
  *.conf) sed -n 's/^ *client-certificate-data: *//p' "$1" | head -n 1 | base64 -d 2>/dev/null | ends ;;
  *) ends <"$1" ;;
  esac
}

served() { # HOST:PORT
  timeout 5 openssl s_client -connect "$1" </dev/null 2>/dev/null | ends
}

certificates() {
  [ -n "$certificates" ] || return 0
  metric=kube_certificate_not_after_timestamp_seconds
  describe $metric gauge 'When a certificate on disk ends.'
  while read -r file _; do sample $metric "file=\"$file\"" "$(on_disk "$file")"; done <<FILES
$certificates
FILES
  metric=kube_served_certificate_not_after_timestamp_seconds
  describe $metric gauge 'When the certificate that is served from a file ends.'
  while read -r file at; do
    [ -z "$at" ] || sample $metric "file=\"$file\"" "$(served "$at")"
  done <<FILES
$certificates
FILES
}

# version_of NAME UNIT prints the version of a program that runs. That of a unit is in the path of its file. That of a
# static pod is in the tag of its image, without the revision of the image.
version_of() {
  if [ "$2" = pod ]; then
    pod_image "$1" </dev/null 2>/dev/null | sed -n 's/^.*:v\{0,1\}\([0-9][^:]*\)$/\1/p' | sed 's/-[0-9]*$//'
    return
  fi
  pid=$(systemctl show --property=MainPID --value "$2")
  [ "${pid:-0}" -gt 0 ] || return 0
  program=$(readlink "/proc/$pid/exe") || return 0
  program=${program% (deleted)} program=${program%/*}
  printf '%s\n' "${program##*/}"
}

versions() {
  [ -n "$programs" ] || return 0
  describe kube_component_version_info gauge 'The version of a program that runs.'
  while read -r name unit; do
    version=$(version_of "$name" "$unit" |
      grep -x '[0-9]\{1,4\}\.[0-9]\{1,4\}\.[0-9]\{1,4\}[0-9A-Za-z.+-]*') || continue
    sample kube_component_version_info "component=\"$name\",version=\"$version\"" 1
  done <<PROGRAMS
$programs
PROGRAMS
}

# stages prints lines "part generation" of the record of a member or a replica.
stages() {
  sed -n -e 's/^ *"generation": *\([0-9]\{1,7\}\),\{0,1\}$/etcd \1/p' \
    -e '/"generations": {/,/}/s/^ *"\([a-z-]*\)": *\([0-9]\{1,7\}\),\{0,1\}$/\1 \2/p' "$record"
}

# A generation that is no multiple of three is a stage of a rotation: see pki.StageOf.
rotations() {
  [ -n "$record" ] && [ -r "$record" ] || return 0
  metric=kube_rotation_generation
  describe $metric gauge 'Number of the stage of a rotation. A multiple of three is the end of one.'
  stages | while read -r part generation; do sample $metric "part=\"$part\"" "$generation"; done
  metric=kube_rotation_since_timestamp_seconds
  describe $metric gauge 'Since when a rotation is at a stage that is not its end.'
  stages | while read -r part generation; do
    [ $((generation % 3)) != 0 ] || continue
    labels="part=\"$part\",generation=\"$generation\""
    since=$(earlier $metric "$labels")
    sample $metric "$labels" "${since:-$now}"
  done
}

# elapses prints when the timer elapses next: with an hourly one, for a week.
elapses() {
  TZ=UTC systemd-analyze calendar --iterations=170 -- "$calendar" 2>/dev/null |
    sed -n 's/^ *\(Next elapse\|Iter[a-z.]* #[0-9]*\): *//p'
}

# pause prints when the timer has elapsed last, and when it elapses next, as far as that is known.
pause() {
  for property in LastTriggerUSec NextElapseUSecRealtime; do
    TZ=UTC systemctl show --property="$property" --value "${snapshot_timer##*/}" 2>/dev/null | grep .
  done
}

seconds() { date -u -f - +%s 2>/dev/null; }

# interval prints the longest time between two runs: the next ones, and the last one and the next. A schedule may have
# more runs than that between two pauses.
interval() {
  { elapses | seconds; echo; pause | seconds; } | awk '
    $1 && last && $1 - last > longest { longest = $1 - last }
    { last = $1 }
    END { if (longest) print longest }'
}

list() { # DIRECTORY: the names of the snapshots in it, the oldest first
  find "$1" -maxdepth 1 -name '*.db' 2>/dev/null | sed 's|^.*/||' | grep -x '[0-9]\{8\}T[0-9]\{6\}Z-[a-z0-9.-]*\.db' | sort
}

# past leaves out the snapshots that are named after a time that is yet to come: a clock was wrong.
past() {
  awk -v latest="$(date -u -d "@$((now + ahead))" +%Y%m%dT%H%M%SZ)" 'substr($0, 1, 16) <= latest'
}

snapshots() {
  [ -n "$snapshots" ] || return 0
  describe kube_etcd_snapshots_scheduled_timestamp_seconds gauge 'Since when snapshots are scheduled as they are.'
  sample kube_etcd_snapshots_scheduled_timestamp_seconds '' "$(modified "$snapshot_timer")"
  describe kube_etcd_snapshot_interval_seconds gauge 'The longest time between two scheduled snapshots.'
  sample kube_etcd_snapshot_interval_seconds '' "$(interval)"
  describe kube_etcd_snapshot_saved_timestamp_seconds gauge \
    'When the last snapshot on this machine was saved and verified: it gets its name afterwards.'
  newest=$(list "$snapshots" | past | tail -n 1)
  [ -z "$newest" ] || sample kube_etcd_snapshot_saved_timestamp_seconds '' "$(modified "$snapshots/$newest")"
  describe kube_etcd_snapshot_last_run_success gauge 'Whether the last scheduled run on this machine succeeded.'
  if [ -n "$(systemctl show --property=ExecMainExitTimestamp --value "$snapshot_service")" ]; then
    result=$(systemctl show --property=Result --value "$snapshot_service")
    if [ "$result" = success ]; then result=1; else result=0; fi
    sample kube_etcd_snapshot_last_run_success '' $result
  fi
  [ -n "$upload" ] || return 0
  sent='' unsent=''
  for name in $(list "$snapshots" | past); do
    if [ -e "$snapshots/$name.sent" ]; then
      sent=$(modified "$snapshots/$name.sent")
    else
      unsent=${unsent:-$(modified "$snapshots/$name")}
    fi
  done
  set +f
  set -- "$snapshots"-* # of former etcd clusters, whose newest three are sent
  set -f
  for former; do
    [ -e "$former/.upload" ] || continue
    for name in $(list "$former" | tail -n 3); do
      [ ! -e "$former/$name.sent" ] || continue
      since=$(modified "$former/$name")
      [ "${unsent:-$since}" -lt "$since" ] || unsent=$since
    done
  done
  describe kube_etcd_snapshot_sent_timestamp_seconds gauge 'When the last snapshot was sent from this machine.'
  sample kube_etcd_snapshot_sent_timestamp_seconds '' "$sent"
  describe kube_etcd_snapshot_unsent_since_timestamp_seconds gauge 'When the oldest snapshot was saved that is not sent.'
  sample kube_etcd_snapshot_unsent_since_timestamp_seconds '' "$unsent"
}

recorded() { # FIELD: a number, or true or false, in the record of the last restore drill
  sed -n 's/^  "'"$1"'": \([0-9]\{1,12\}\(\.[0-9]\{1,9\}\)\{0,1\}\|true\|false\),\{0,1\}$/\1/p' "$drill" | head -n 1
}

drill() {
  [ -n "$drill" ] && [ -r "$drill" ] || return 0
  describe kube_etcd_restore_drill_timestamp_seconds gauge 'When the last restore drill on this machine ended.'
  sample kube_etcd_restore_drill_timestamp_seconds '' "$(recorded finished)"
  describe kube_etcd_restore_drill_success gauge 'Whether the last restore drill on this machine succeeded.'
  case $(recorded succeeded) in
  true) succeeded=1 ;;
  false) succeeded=0 ;;
  *) succeeded='' ;;
  esac
  sample kube_etcd_restore_drill_success '' "$succeeded"
  describe kube_etcd_restore_drill_last_success_timestamp_seconds gauge \
    'When a restore drill on this machine last succeeded.'
  succeeded_at=$(recorded last_success)
  [ "${succeeded_at:-0}" = 0 ] || sample kube_etcd_restore_drill_last_success_timestamp_seconds '' "$succeeded_at"
  [ "$succeeded" = 1 ] || return 0
  describe kube_etcd_restore_drill_rto_seconds gauge 'How long the last restore drill took until an API server served.'
  sample kube_etcd_restore_drill_rto_seconds '' "$(recorded rto_seconds)"
  [ "$(recorded saved)" != 0 ] || return 0
  describe kube_etcd_restore_drill_rpo_seconds gauge 'How old the snapshot of the last restore drill was when it began.'
  sample kube_etcd_restore_drill_rpo_seconds '' "$(recorded rpo_seconds)"
}

learner() {
  [ -n "$learner" ] || return 0
  metric=kube_etcd_learner_since_timestamp_seconds
  describe $metric gauge 'Since when the member is a learner, which has no vote.'
  if curl --silent --noproxy '*' --max-time 5 "$learner" | grep -qx 'etcd_server_is_learner 1'; then
    since=$(earlier $metric '')
    sample $metric '' "${since:-$now}"
  fi
}

holds() { # ADDRESS: 1 or 0
  if ip -o address show | grep -qF " $1/"; then echo 1; else echo 0; fi
}

# A move is counted where the address arrives. One that comes and goes between two rounds is not seen.
addresses() {
  [ -n "$addresses" ] || return 0
  moves='' held=''
  for address in $addresses; do
    label="address=\"$address\"" now_held=$(holds "$address")
    count=$(earlier kube_virtual_ip_moves_total "$label")
    [ "$now_held$(earlier kube_virtual_ip_held "$label")" != 10 ] || count=$((${count:-0} + 1))
    held="$held$(sample kube_virtual_ip_held "$label" "$now_held")
"
    moves="$moves$(sample kube_virtual_ip_moves_total "$label" "${count:-0}")
"
  done
  describe kube_virtual_ip_held gauge 'Whether this machine has a virtual IP.'
  printf %s "$held"
  describe kube_virtual_ip_moves_total counter 'How often a virtual IP was seen to arrive on this machine.'
  printf %s "$moves"
}

# announces prints whether this machine announces an address: bird exports the route of the endpoint, or kube-vip runs,
# and a router has a session. Whoever hangs announces nothing.
announces() { # bird:SOCKET | URL
  case $1 in
  bird:*)
    shown=$(timeout 2 birdc -s "${1#*:}" show protocols 2>/dev/null) || shown=''
    printf '%s\n' "$shown" | grep -q '^endpoint  *Direct  *[^ ]*  *up ' || shown=''
    printf '%s\n' "$shown" | grep -c -m 1 ' BGP .* Established'
    ;;
  *)
    curl --silent --noproxy '*' --max-time 2 "$1" |
      grep -c -m 1 '^kube_vip_manager_bgp_session_info{.*state="SESSION_STATE_ESTABLISHED"} 1$'
    ;;
  esac
}

announcements() {
  [ -n "$announced" ] || return 0
  describe kube_endpoint_announced gauge 'Whether this machine announces the address of an endpoint to a router.'
  while read -r address by; do
    sample kube_endpoint_announced "address=\"$address\"" "$(announces "$by" </dev/null || true)"
  done <<ANNOUNCED
$announced
ANNOUNCED
}

# offset prints how far the clock is from the time that chrony or systemd-timesyncd has: nothing without one, or while it
# is not synchronized.
offset() {
  if command -v chronyc >/dev/null; then
    chronyc -c -n tracking 2>/dev/null | awk -F , '$NF != "Not synchronised" && NF > 4 { print $5 + 0 }'
  else
    timedatectl timesync-status 2>/dev/null | awk '$1 == "Offset:" && $2 ~ /^[+-]?[0-9.]+(us|ms|s)$/ {
      value = $2 + 0
      print $2 ~ /us$/ ? value / 1000000 : $2 ~ /ms$/ ? value / 1000 : value
    }'
  fi
}

clock() {
  describe kube_clock_offset_seconds gauge 'How far the clock is from the time of its NTP servers.'
  sample kube_clock_offset_seconds '' "$(offset)"
}

now=$(date +%s)
{
  describe kube_facts_written_timestamp_seconds gauge 'When these facts were written.'
  sample kube_facts_written_timestamp_seconds '' "$now"
  certificates
  versions
  rotations
  snapshots
  drill
  learner
  addresses
  announcements
  clock
} >"$work/facts"
# install creates a new file: whoever owns the directory cannot redirect this one elsewhere by a link.
install -m 0644 -T "$work/facts" "$output.new" && mv -fT "$output.new" "$output"

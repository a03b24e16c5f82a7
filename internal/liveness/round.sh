# One round of probes of the components on this machine. systemd starts it some seconds after the last one has ended.
# A component that has failed $threshold probes in a row is killed, and systemd starts it again, if
# - it has been live since its start: a start takes as long as it needs, and a component that never gets ready is not
#   killed again and again;
# - its rule allows that, so that a cause that all machines share (no quorum, a full or slow disk, a network) restarts
#   nothing, and no two API servers or members of a cluster are restarted at once.
#
# $components has a line for each: unit, what says it is ready, what says it is live, rule.
# $state is a directory with a file for each unit: see state.go.
umask 077
set -f # the URL of an IPv6 address is a pattern too

status() { # URL: the HTTP status; 000 without an answer
  curl --silent --globoff --insecure --noproxy '*' --max-time "$timeout" --output /dev/null --write-out '%{http_code}' "$1"
}

# A refused login is an answer too: with anonymous-auth=false, a probe gets no other.
answers() { # URL | haproxy:SOCKET,… | awake:FILE,…
  case $1 in
  haproxy:*) commands "${1#*:}" ;;
  awake:*) awake "${1#*:}" ;;
  *) case $(status "$1") in 2?? | 401 | 403) ;; *) return 1 ;; esac ;;
  esac
}

# Whatever HAProxy answers, it does not hang. Its master and its worker have a socket each.
commands() { # SOCKET,…
  split "$1"
  for socket in $list; do
    [ -n "$("$asks" "$socket" help "$timeout" 2>/dev/null)" ] || return 1
  done
}

split() { # A,B,…: $list is "A B …"
  list='' rest=$1,
  while [ -n "$rest" ]; do
    list="$list ${rest%%,*}" rest=${rest#*,}
  done
}

# keepalived has no socket, and writes files when it is asked by signals. But its process of VRRP cannot sleep for long:
# it sends or receives an advertisement four times a second, or takes the address. In the state FAULT it may.
awake() { # PID-FILE,RESTING…
  split "${1#*,}"
  for file in $list; do
    says=''
    read -r says 2>/dev/null <"$file" || true
    case $says in 1 | down | lowerlayerdown | notpresent) return 0 ;; esac
  done
  pid='' tries=0
  read -r pid 2>/dev/null <"${1%%,*}" || return 1
  switches
  before=$switches
  [ -n "$before" ] || return 1
  while [ "$switches" = "$before" ]; do
    [ "$tries" -lt $((timeout * 4)) ] || return 1
    tries=$((tries + 1))
    sleep 0.25
    switches
  done
}

# switches sets $switches: how often process $pid began to wait, and was interrupted.
switches() {
  switches=''
  [ ! -r "/proc/$pid/status" ] || while read -r name count; do
    case $name in *ctxt_switches:) switches="$switches $count" ;; esac
  done 2>/dev/null <"/proc/$pid/status"
}

# post sends a request to etcd's gateway. The answer is in $said. If that is none with the status 200, it fails, and what
# was answered is in $reason.
post() { # URL JSON
  at=${1%/v3/*}
  if ! said=$(curl --silent --show-error --globoff --noproxy '*' --max-time 5 --cacert "$ca" --cert "$cert" --key "$key" \
    --data "$2" --write-out '\n%{http_code}' "$1" 2>&1); then
    reason="no answer of etcd at $at: $(printf '%s' "$said" | sed -n 's/^curl: //p' | plain)"
    return 1
  fi
  answer=$(printf '%s\n' "$said" | tail -n 1) said=$(printf '%s\n' "$said" | sed '$d')
  [ "$answer" != 200 ] || return 0
  reason="etcd at $at answers $answer: $(printf '%s' "$said" | sed -n 's/.*"message": *"\([^"]*\)".*/\1/p' | plain)"
  return 1
}

# plain makes a short line of what somebody else says.
plain() { tr -cd '[:print:]' | cut -c 1-200; }

# lock takes the key that allows one restart in the whole cluster for $hold seconds. Without quorum, or with a full
# database, etcd refuses it. Nobody returns it early: the next restart waits until the effect of this one can be seen.
lock() { # ENDPOINT...
  reason="no member of etcd is known"
  name=$(printf /kube-liveness/restart | base64 -w 0)
  free="{\"target\":\"CREATE\",\"key\":\"$name\",\"create_revision\":\"0\"}"
  for endpoint in "$@"; do
    post "$endpoint/v3/lease/grant" "{\"TTL\":$hold}" || continue
    lease=$(printf '%s' "$said" | sed -n 's/.*"ID":"\([0-9][0-9]*\)".*/\1/p')
    reason="etcd at $endpoint grants no lease"
    [ -n "$lease" ] || continue
    put="{\"key\":\"$name\",\"value\":\"$(hostname | base64 -w 0)\",\"lease\":\"$lease\"}"
    if post "$endpoint/v3/kv/txn" "{\"compare\":[$free],\"success\":[{\"request_put\":$put}]}"; then
      ! printf '%s' "$said" | grep -q '"succeeded":true' || return 0
      reason="another restart of this cluster is less than $hold s ago"
    fi
    refused=$reason
    post "$endpoint/v3/lease/revoke" "{\"ID\":\"$lease\"}" || true
    reason=$refused
    return 1
  done
  return 1
}

# hangs asks a component once more when etcd has granted the lock: it does so too when a cause has just ended that all
# machines share.
hangs() {
  reason="it answers again"
  ! answers "$live"
}

# An API server: etcd works, and no other API server or member is being restarted.
# shellcheck disable=SC2086 # URLs without spaces
may_server() { lock $endpoints && hangs; }

# A component that works with this machine's API server: that one is ready, so it is not what hangs.
may_client() {
  reason="the API server of this machine is not ready"
  answers "$server"
}

# A member: all others are healthy, so the cluster has quorum without it, and it is not restarted while one of them is.
may_member() {
  reason="the other members are not known yet"
  [ -s "$state/members" ] || return 1
  others=$(grep -vxF "$own" "$state/members")
  [ -n "$others" ] || return 0
  for other in $others; do
    if ! curl --silent --fail --globoff --noproxy '*' --max-time 5 --cacert "$ca" --cert "$cert" --key "$key" \
      "$other/health" | grep -q '"health":"true"'; then
      reason="the member at $other is not healthy"
      return 1
    fi
  done
  # shellcheck disable=SC2086 # URLs without spaces
  lock $others && hangs
}

# A program that serves nobody while it hangs: no quorum, no lock and no other machine needs this process. What all
# machines may share is that they are slow, which looks the same: systemd would be late too.
may_alone() {
  reason="this machine is slow"
  timeout "$systemd_timeout" systemctl is-active --quiet "$unit"
}

# remember keeps the client URLs of the members, for the time when this one does not answer.
remember() {
  [ -n "$own" ] || return 0
  [ -z "$(find "$state/members" -mmin -1 2>/dev/null)" ] || return 0
  post https://127.0.0.1:2379/v3/cluster/member/list '{"linearizable":false}' || return 0
  printf '%s' "$said" | sed 's/"peerURLs":\[[^]]*\]//g' | grep -o '"https://[^"]*"' | tr -d '"' |
    grep -x 'https://[][0-9A-Za-z.:-]*' \
    >"$state/members.new"
  if [ -s "$state/members.new" ]; then mv "$state/members.new" "$state/members"; fi
}

# A member answers nothing while it is defragmented, which writes a second database beside the first.
defragments() {
  [ -n "$data" ] && [ -n "$(find "$data/member/snap" -name 'db.tmp.*' -mmin -1 2>/dev/null)" ]
}

# clock sets $now.
clock() {
  read -r now _ </proc/uptime
  now=${now%.*}
}

property() { # UNIT NAME: sets $value
  value='' block=''
  while IFS= read -r line; do
    case $line in
    "Id=$1") block=$1 ;;
    '') block='' ;;
    "$2="*) [ -z "$block" ] || value=${line#*=} ;;
    esac
  done <<SHOWN
$shown
SHOWN
}

# ask sets is_ready and is_live. Both are asked at the same time, so that a probe takes no longer than $timeout: what a
# component that hangs costs is the number of probes until it is killed.
ask() {
  is_ready=0 is_live=0 asked=''
  if [ "$live" != "$ready" ]; then
    answers "$live" &
    asked=$!
  fi
  if answers "$ready"; then is_ready=1; fi
  if [ -z "$asked" ]; then
    is_live=$is_ready
  elif wait "$asked"; then
    is_live=1
  fi
}

probe() { # UNIT READY LIVE RULE
  unit=$1 ready=$2 live=$3 rule=$4
  property "$unit" InvocationID
  invocation=$value
  property "$unit" ActiveState
  case $value in active | activating) ;; *) invocation='' ;; esac
  if [ -z "$invocation" ]; then # it was stopped
    rm -f "$state/$unit"
    return
  fi
  seen='' lived=0 failures=0 since=0
  [ ! -e "$state/$unit" ] || read -r seen lived failures since _ <"$state/$unit"
  clock
  if [ "$seen" != "$invocation" ]; then lived=0 failures=0 since=$now; fi
  ask
  clock
  if [ "$is_ready" = 1 ]; then
    lived=1 failures=0 since=0
    [ "$rule" != member ] || remember
  else
    [ "$since" != 0 ] || since=$now
    if [ "$is_live" = 1 ]; then
      lived=1 failures=0
    elif ! defragments; then
      failures=$((failures + 1))
    fi
  fi
  # A refused restart is asked for again after as many failures more.
  if [ "$failures" -gt 0 ] && [ $((failures % threshold)) = 0 ]; then
    reason="it has not been live since its start"
    if [ "$lived" = 1 ] && "may_$rule"; then
      echo "$unit has failed $failures probes: it is killed, and started again"
      systemctl kill --signal=KILL "$unit"
      lived=0
    else
      echo "$unit has failed $failures probes. It is not restarted: $reason"
    fi
  fi
  unready=0
  [ "$since" = 0 ] || unready=$((now - since))
  echo "$invocation $lived $failures $since $unready" >"$state/$unit.new"
  mv "$state/$unit.new" "$state/$unit"
}

# Without curl, nothing is known, and nothing is counted.
case $components in
*' http'*) command -v curl >/dev/null || { echo "curl is not installed" >&2; exit 1; } ;;
esac

units=''
while read -r unit _; do units="$units $unit"; done <<LINES
$components
LINES
# shellcheck disable=SC2086 # names of units
shown=$(systemctl show --property=Id,ActiveState,InvocationID $units)
while read -r unit ready live rule; do
  probe "$unit" "$ready" "$live" "$rule" </dev/null &
done <<LINES
$components
LINES
wait

#!/bin/sh
# One round of the agent. It checks the replicas, removes the record of one that is not ready, and
# puts the record of this machine's replica back. Every update requires the set of records that it
# was decided on. None removes the last record, and none removes a record unless another replica
# that has one is ready. Records of other addresses than the targets' are not its own: they count as
# none, and stay.
#
# The configuration sets name, zone, type, ttl, server, server_port, self, targets, port, threshold.
set -eu
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
config=/etc/kube-endpoint-dns
state=/run/kube-endpoint-dns
# shellcheck source=/dev/null
. "$config/config"

mkdir -p "$state"
exec 9>"$state/lock"
flock 9

# say TEXT: writes to the journal, whose level is in the prefix.
say() { echo "<5>$*"; }

# ready ADDRESS: asks the API server there. Its certificate is not verified: this only finds out who
# is dead, and an agent with an old CA must not take everybody else out.
ready() {
  case $1 in
  *:*) at="[$1]" ;;
  *) at=$1 ;;
  esac
  [ "$(curl -g -s -k -o /dev/null -w '%{http_code}' --noproxy '*' --max-time 2 "https://$at:$port/readyz")" = 200 ]
}

# check ADDRESS: counts the checks in a row that succeeded (up-ADDRESS) or failed (down-ADDRESS).
check() {
  if ready "$1"; then result=up other=down; else result=down other=up; fi
  rm -f "$state/$other-$1"
  n=$(count "$result" "$1")
  echo $((n + 1)) >"$state/$result-$1"
}

# count up|down ADDRESS
count() {
  n=$(cat "$state/$1-$2" 2>/dev/null || echo 0)
  case $n in
  '' | *[!0-9]*) echo 0 ;;
  *) echo "$n" ;;
  esac
}

up() { [ "$(count up "$1")" -ge "$2" ]; }
down() { [ "$(count down "$1")" -ge "$threshold" ]; }

# listed ADDRESS: whether it is among the records.
listed() {
  for record in $records; do
    [ "$record" != "$1" ] || return 0
  done
  return 1
}

# target ADDRESS: whether it is one of the endpoint's targets.
target() {
  for one in $targets; do
    [ "$one" != "$1" ] || return 0
  done
  return 1
}

# change add|delete ADDRESS: changes one record if the records are still those in $records.
change() {
  if request "$1" "$2" | nsupdate -v -t 5 -k "$config/key"; then
    say "$1 $type $2 of $name"
  else
    say "$1 $type $2 of $name was refused"
  fi
}

request() {
  echo "server $server $server_port"
  echo "zone $zone."
  if [ -z "$records" ]; then
    echo "prereq nxrrset $name. IN $type"
  fi
  for record in $records; do
    echo "prereq yxrrset $name. IN $type $record"
  done
  case $1 in
  add) echo "update add $name. $ttl IN $type $2" ;;
  delete) echo "update delete $name. IN $type $2" ;;
  esac
  echo send
}

# Only addresses are used of what the name server says.
answer=$(dig +tcp +short +norecurse +time=2 +tries=1 -k "$config/key" -p "$server_port" "@$server" "$name." "$type") || {
  say "name server $server does not answer"
  exit 0
}
records=$(printf '%s\n' "$answer" | grep -E '^[0-9a-f.:]+$' | sort) || records=''

others=''
for address in $records; do
  if [ "$address" != "$self" ] && target "$address"; then others="$others $address"; fi
done

# The counts of an address that has no record are of another time: one that returns starts anew.
for counted in "$state"/up-* "$state"/down-*; do
  for address in $self $others; do
    [ "${counted##*/*-}" != "$address" ] || continue 2
  done
  rm -f "$counted"
done

check "$self" &
for address in $others; do check "$address" & done
wait

# A machine whose replica was drained, or is not registered yet, does not add its record.
if ! listed "$self"; then
  if [ -e "$config/registered" ] && up "$self" "$threshold"; then
    change add "$self"
  fi
  exit 0
fi

if down "$self"; then
  for address in $others; do
    if up "$address" 1; then
      change delete "$self"
      exit 0
    fi
  done
  exit 0
fi

up "$self" 1 || exit 0
for address in $others; do
  if down "$address"; then
    change delete "$address"
    exit 0 # the next one in the next round
  fi
done

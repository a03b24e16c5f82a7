# Determines whose endpoint a machine has. Go sets cluster, "" if it is unknown, vip, and replica, "" if the script is
# for whatever replica the machine has. Another script sets config, the directory of the endpoint's kind, and may define
# bound, which prints the address of an endpoint whose record has none.

# lock: every process that changes something below $config holds it. The directory may have
# been removed and created again while another process held the lock.
lock() {
  while :; do
    command exec 9<"$config" || return 1
    flock 9
    if [ "$(stat -c %d:%i "$config" 2>/dev/null)" = "$(stat -L -c %d:%i /proc/self/fd/9)" ]; then return 0; fi
  done
}

# create_and_lock: lock, after $config was created. Another process may remove it in between, with its parent, so that
# mkdir is tried again. It ends the script with the error of mkdir if that goes on failing.
create_and_lock() {
  tries=0
  until mkdir -p "$config" 2>/dev/null && lock; do
    tries=$((tries + 1))
    [ "$tries" -lt 20 ] || mkdir -p "$config" || exit 1
  done
}

# recorded FIELD: prints a field of the record, whose first fields are on one line each.
recorded() {
  [ ! -f "$config/endpoint.json" ] ||
    sed -n 's/^  "'"$1"'": "\([^"\\]*\)",\{0,1\}$/\1/p' "$config/endpoint.json" | head -n 1
}

# whose: prints none, ours or other.
whose() {
  has_cluster=$(recorded cluster_id)
  has_address=$(recorded address)
  if [ -z "$has_address" ] && command -v bound >/dev/null; then has_address=$(bound); fi
  if [ -z "$has_cluster$has_address" ]; then
    echo none
  elif [ -n "$has_cluster" ] && [ -n "$cluster" ] && [ "$has_cluster" != "$cluster" ]; then
    echo other
  elif [ -n "$has_address" ] && [ "$has_address" != "$vip" ]; then
    echo other
  else
    echo ours
  fi
}

# unless_other: ends the script if the machine has another endpoint. The record follows the answer. What is there of
# another replica of the same endpoint, which has got the machine since, is nothing of $replica.
unless_other() {
  if [ "$(whose)" = other ]; then
    echo other
    [ ! -f "$config/endpoint.json" ] || head -c 16384 "$config/endpoint.json"
    exit 0
  fi
  has_name=$(recorded name)
  if [ -n "$replica" ] && [ -n "$has_name" ] && [ "$has_name" != "$replica" ]; then
    echo absent
    exit 0
  fi
}

# Determines whose endpoint a machine has. Go sets cluster, "" if it is unknown, and vip.
config=/etc/haproxy/kube

# lock: every process that changes something below $config holds it. The file may have
# been removed and created again while another process held the lock.
lock() {
  while :; do
    command exec 9<"$config" || return 1
    flock 9
    if [ "$(stat -c %d:%i "$config" 2>/dev/null)" = "$(stat -L -c %d:%i /proc/self/fd/9)" ]; then return 0; fi
  done
}

# recorded FIELD: prints a field of the record, whose first fields are on one line each.
recorded() {
  [ ! -f "$config/endpoint.json" ] || sed -n 's/^  "'"$1"'": "\([^"\\]*\)",$/\1/p' "$config/endpoint.json" | head -n 1
}

# bound: prints the address that HAProxy binds, if an earlier version recorded none.
bound() {
  [ ! -f "$config/10-endpoint.cfg" ] ||
    sed -n 's/^ *bind \[\{0,1\}\([0-9a-fA-F.:]*\)\]\{0,1\}:[0-9]* .*/\1/p' "$config/10-endpoint.cfg" | head -n 1
}

# whose: prints none, ours or other.
whose() {
  has_cluster=$(recorded cluster_id)
  has_address=$(recorded address)
  [ -n "$has_address" ] || has_address=$(bound)
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

# unless_other: ends the script if the machine has another endpoint.
unless_other() {
  [ "$(whose)" = other ] || return 0
  echo other
  [ ! -f "$config/endpoint.json" ] || head -c 16384 "$config/endpoint.json"
  exit 0
}

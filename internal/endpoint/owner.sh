# Determines whose endpoint a machine has. Go sets cluster, "" if it is unknown, and vip. Another
# script sets config, the directory of the endpoint's kind, and may define bound, which prints the
# address of an endpoint whose record has none.

# lock: every process that changes something below $config holds it. The directory may have
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

# unless_other: ends the script if the machine has another endpoint. The record follows the answer.
unless_other() {
  [ "$(whose)" = other ] || return 0
  echo other
  [ ! -f "$config/endpoint.json" ] || head -c 16384 "$config/endpoint.json"
  exit 0
}

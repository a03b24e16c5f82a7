# Determines whose endpoint a machine has. Go sets cluster and vip. Needs bird.sh.

# lock: every process that changes something below $config holds it. The directory may have been
# removed and created again while another process held the lock.
lock() {
  while :; do
    command exec 9<"$config" || return 1
    flock 9
    if [ "$(stat -c %d:%i "$config" 2>/dev/null)" = "$(stat -L -c %d:%i /proc/self/fd/9)" ]; then return 0; fi
  done
}

# recorded FIELD: prints a field of the record, whose fields are on one line each.
recorded() {
  [ ! -f "$config/endpoint.json" ] || sed -n 's/^  "'"$1"'": "\([^"\\]*\)",\{0,1\}$/\1/p' "$config/endpoint.json" | head -n 1
}

# whose: prints none, ours or other.
whose() {
  has_cluster=$(recorded cluster_id)
  has_address=$(recorded address)
  if [ -z "$has_cluster$has_address" ]; then
    echo none
  elif [ "$has_cluster" = "$cluster" ] && [ "$has_address" = "$vip" ]; then
    echo ours
  else
    echo other
  fi
}

# unless_other: ends the script if the machine has another endpoint.
unless_other() {
  [ "$(whose)" = other ] || return 0
  echo other
  exit 0
}

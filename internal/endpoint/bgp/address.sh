# Gives the machine the address (up) and takes it away (down). Go sets prefix, own (the machine's own
# address) and state, a directory that ends with the unit.
#
# The address is for packets that routers send. On its own network, the machine must not say that it
# has the address, or neighbors would go around BGP. IPv6 does so only on the interface that has the
# address.

set -eu

# set_to NAME VALUE: changes a setting of the machine's interface, and records what it was.
set_to() {
  file=/proc/sys/net/ipv4/conf/$device/$1
  before=$(cat "$file")
  case $1=$before in
  arp_ignore=[128] | arp_announce=2) return 0 ;;
  esac
  echo "$file $before $2" >>"$state/sysctl"
  echo "$2" >"$file"
}

case $1 in
up)
  echo "$prefix" >"$state/prefix"
  case $own in
  *.*)
    # After a boot, the network may be late.
    for _ in $(seq 60); do
      device=$(ip -o address show to "$own" | awk '{ print $2; exit }')
      [ -z "$device" ] || break
      sleep 1
    done
    [ -n "$device" ] || { echo "no interface has the address $own" >&2; exit 1; }
    set_to arp_ignore 1
    set_to arp_announce 2
    ip address replace "$prefix" dev lo
    ;;
  *) ip address replace "$prefix" dev lo preferred_lft 0 ;; # never the source of connections of the machine
  esac
  ;;
down)
  if [ -e "$state/prefix" ]; then
    ip address delete "$(cat "$state/prefix")" dev lo 2>/dev/null || true
  fi
  if [ -e "$state/sysctl" ]; then
    while read -r file before value; do
      if [ -e "$file" ] && [ "$(cat "$file")" = "$value" ]; then echo "$before" >"$file"; fi
    done <"$state/sysctl"
  fi
  ;;
esac

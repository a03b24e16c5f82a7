# How a machine has an address for packets that routers send: $prefix. On its own network, the machine must not say that it
# has it, or neighbors would go around BGP. $own is the machine's own address, $device the interface that has that, and
# $state a directory that ends with the unit.

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

# hold_address: IPv6 answers only on the interface that has the address, which is never the source of connections of the
# machine.
hold_address() {
  case $own in
  *.*)
    set_to arp_ignore 1
    set_to arp_announce 2
    ip address replace "$prefix" dev lo
    ;;
  *) ip address replace "$prefix" dev lo preferred_lft 0 ;;
  esac
}

# reset_interface: undoes what set_to has changed, unless somebody has changed it since.
reset_interface() {
  [ -e "$state/sysctl" ] || return 0
  while read -r file before value; do
    if [ -e "$file" ] && [ "$(cat "$file")" = "$value" ]; then echo "$before" >"$file"; fi
  done <"$state/sysctl"
  rm -f "$state/sysctl"
}

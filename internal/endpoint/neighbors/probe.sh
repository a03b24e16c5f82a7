# Asks the network who has each of $vips: a datagram to the discard port makes the kernel
# resolve it. The wait is the time that a machine on the same network needs to answer. A
# machine that has the address asks nobody, and its kernel may still know who had it before.
asked=''
for vip in $vips; do
  route=$(ip -o route get "$vip" 2>/dev/null)
  case $route in local\ *) continue ;; esac
  device=$(echo "$route" | sed -n 's/.* dev \([^ ]*\).*/\1/p')
  ip neighbour delete "$vip" dev "$device" 2>/dev/null
  bash -c 'echo >"/dev/udp/$1/9"' bash "$vip" 2>/dev/null
  asked="$asked $vip"
done
sleep 0.2
for vip in $asked; do ip neighbour show "$vip"; done
# The machine's own hardware addresses.
sed 's/^/hardware /' /sys/class/net/*/address 2>/dev/null || true

# Asks the network who has each of $vips: a datagram to the discard port makes the kernel
# resolve it. The wait is the time that a machine on the same network needs to answer.
for vip in $vips; do
  device=$(ip -o route get "$vip" 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')
  ip neighbour delete "$vip" dev "$device" 2>/dev/null
  bash -c 'echo >"/dev/udp/$1/9"' bash "$vip" 2>/dev/null
done
sleep 0.2
for vip in $vips; do ip neighbour show "$vip"; done
# The machine's own hardware addresses.
sed 's/^/own /' /sys/class/net/*/address 2>/dev/null || true

# Asks the network who has $vip: a datagram to the discard port makes the kernel resolve
# it. The wait is the time that a machine on the same network needs to answer.
device=$(ip -o route get "$vip" | sed -n 's/.* dev \([^ ]*\).*/\1/p')
ip neighbour delete "$vip" dev "$device" 2>/dev/null
bash -c 'echo >"/dev/udp/$1/9"' bash "$vip" 2>/dev/null
sleep 0.2
ip neighbour show "$vip"

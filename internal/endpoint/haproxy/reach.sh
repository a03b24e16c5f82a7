# Prints whether this machine reaches the endpoint: "reached", or "unreached" and the state of
# the neighbour's entry ("FAILED" if nobody answers ARP or neighbour solicitation).
device=$(ip -o route get "$vip" 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')
# shellcheck disable=SC2016 # bash expands it
if timeout 3 bash -c 'echo >"/dev/tcp/$1/$2"' bash "$vip" "$port" 2>/dev/null; then
  echo reached
else
  echo unreached
  ip neighbour show to "$vip" dev "$device" | sed -n 's/.* //p'
fi

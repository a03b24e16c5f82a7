# Drops what the machine's member sends to others, and what they send to it, until its data is another or none.
member=/var/lib/etcd/member
export member
was=$(stat -c %i $member)
export was
both() { for chain in INPUT OUTPUT; do iptables -w "$1" $chain -p tcp --dport 2380 -j DROP; done; }
both -I
# shellcheck disable=SC2016 # the other shell expands it
nohup sh -c 'while [ "$(stat -c %i $member 2>/dev/null)" = "$was" ]; do sleep 0.1; done
for chain in INPUT OUTPUT; do iptables -w -D $chain -p tcp --dport 2380 -j DROP; done' >/dev/null 2>&1 </dev/null &

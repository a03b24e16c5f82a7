# Prints what the member on the machine serves, if there is one, and whether it reads
# linearizably, which means through a quorum.
systemctl is-active --quiet etcd || exit 0
etcdctl endpoint status --command-timeout=3s --write-out=json || exit 0
echo
etcdctl get --consistency=l --command-timeout=5s /soak/none >/dev/null && echo linearizable
true

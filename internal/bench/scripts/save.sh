# Saves a snapshot of the machine's member and verifies it, as the provider's timer does.
set -e
ctl "$address" snapshot save /root/bench.save >/dev/null 2>&1
"$(printf '%s\n' /opt/kube/etcd/*/etcdutl | tail -n 1)" snapshot status /root/bench.save >/dev/null
rm /root/bench.save

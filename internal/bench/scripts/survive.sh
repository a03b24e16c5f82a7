# Makes the machine's member the only one of its cluster, and waits until it serves. The flag is not there at the next
# start, and its data is copied aside first.
set -e
rm -rf /var/lib/etcd/aside
systemctl stop etcd
cp -a /var/lib/etcd/member /var/lib/etcd/aside
echo ETCD_FORCE_NEW_CLUSTER=true >/etc/etcd/bootstrap.env
systemctl start etcd
rm /etc/etcd/bootstrap.env
until curl -sf http://127.0.0.1:2381/readyz >/dev/null; do sleep 0.1; done

# Restores the machine's member from $snapshot as one of $cluster, which is a different one for each $token, and waits
# until it serves.
set -e
restored=/var/lib/etcd/restored
rm -rf "$restored" /etc/etcd/bootstrap.env
"$(printf '%s\n' /opt/kube/etcd/*/etcdutl | tail -n 1)" snapshot restore "$snapshot" --data-dir="$restored" \
  --name="$name" --initial-advertise-peer-urls="https://$address:2380" --initial-cluster="$cluster" \
  --initial-cluster-token="$token" --bump-revision=1000000000 --mark-compacted >/dev/null 2>&1
chown -R etcd:etcd "$restored"
mv "$restored/member" /var/lib/etcd/
rmdir "$restored"
systemctl start etcd
until curl -sf http://127.0.0.1:2381/readyz >/dev/null; do sleep 0.1; done

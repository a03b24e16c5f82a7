# Lists leftovers of an interrupted change: files that were staged and not renamed, the
# parameters of a completed bootstrap, and the rollback files of a completed change.
find /etc /opt /usr/local /var/lib /root /run -xdev -name '.*.kube-*'
find /etc/etcd/bootstrap.env 2>/dev/null || true
find /etc/etcd /etc/kubernetes -name '*.before' -o -name '*.before.json' 2>/dev/null || true

# Lists leftovers of an interrupted change: files that were staged and not renamed, the
# parameters of a completed bootstrap, the rollback files of a completed change, and the mark of a replica that is
# stopped.
# shellcheck disable=SC2086 # a mount point of a member has no space
find /etc /opt /usr/local /var/lib /root /run $volumes -xdev -name '.*.kube-*'
find /etc/etcd /etc/kubernetes -name '.*.yaml.kube' -o -name '.*.started' 2>/dev/null || true
find /etc/etcd/bootstrap.env /etc/kubernetes/replica.paused 2>/dev/null || true
find /etc/etcd /etc/kubernetes -name '*.before' -o -name '*.before.json' 2>/dev/null || true

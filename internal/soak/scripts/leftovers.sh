# Lists what a cut may leave where it does not belong: files that were staged and
# not renamed, the parameters of a bootstrap that is over, and what a rollback of
# a change that is over would go back to.
find /etc /opt /usr/local /var/lib /root /run -xdev -name '.*.kube-*'
find /etc/etcd/bootstrap.env 2>/dev/null || true
find /etc/etcd /etc/kubernetes -name '*.before' -o -name '*.before.json' 2>/dev/null || true

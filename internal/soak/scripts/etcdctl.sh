# Runs etcdctl against the member on the machine itself, with an installed version: during
# an upgrade there are two.
export ETCDCTL_CACERT=/etc/kubernetes/pki/etcd/ca.crt
export ETCDCTL_CERT=/etc/kubernetes/pki/etcd/healthcheck-client.crt
export ETCDCTL_KEY=/etc/kubernetes/pki/etcd/healthcheck-client.key
export ETCDCTL_ENDPOINTS=https://127.0.0.1:2379
etcdctl() { "$(printf '%s\n' /opt/kube/etcd/*/etcdctl | tail -n 1)" "$@" 2>/dev/null; }

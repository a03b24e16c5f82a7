# Prints the member's start, its own metric of its version, and the answer of the
# API server at $address on one line.
set -e
systemctl show --property=ExecMainStartTimestampMonotonic --value etcd
curl --silent --fail http://127.0.0.1:2381/metrics | grep '^etcd_server_version{'
curl --silent --insecure --fail --cert /etc/kubernetes/pki/apiserver-kubelet-client.crt --key /etc/kubernetes/pki/apiserver-kubelet-client.key \
  "https://$address:6443/version" | tr -d '\n'

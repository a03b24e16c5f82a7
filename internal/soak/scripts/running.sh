# Prints, on one line, the member's start time, the version in its metrics, and the answer
# of the API server at $address.
set -e
systemctl show --property=ExecMainStartTimestampMonotonic --value etcd
curl --silent --fail http://127.0.0.1:2381/metrics | grep '^etcd_server_version{'
curl --silent --insecure --fail --cert /etc/kubernetes/pki/apiserver-kubelet-client.crt --key /etc/kubernetes/pki/apiserver-kubelet-client.key \
  "https://$address:6443/version" | tr -d '\n'

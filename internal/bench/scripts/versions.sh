# Fails if a version other than $etcd or $kubernetes is running.
set -e
pki=/etc/kubernetes/pki
curl -sf http://127.0.0.1:2381/metrics | grep -F "etcd_server_version{server_version=\"$etcd\"} 1"
curl -ksf --cert $pki/apiserver-kubelet-client.crt --key $pki/apiserver-kubelet-client.key "https://$address:6443/version" | grep -F "\"gitVersion\": \"v$kubernetes\""
for unit in kube-controller-manager kube-scheduler; do
  readlink "/proc/$(systemctl show --property=MainPID --value "$unit")/exe" | grep -F "/$kubernetes/"
done

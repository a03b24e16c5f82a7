# Restarts the static pods of kubeadm, as its guide "Certificate Management with kubeadm" says, and waits until they are
# ready. The kubelet reads its directory of manifests every 20 seconds unless it is told of changes, which it is.
set -e
mkdir -p /root/manifests
mv /etc/kubernetes/manifests/*.yaml /root/manifests/
while pgrep -x 'etcd|kube-apiserver|kube-controller|kube-scheduler' >/dev/null; do sleep 0.1; done
mv /root/manifests/*.yaml /etc/kubernetes/manifests/
until curl -sf http://127.0.0.1:2381/readyz >/dev/null && curl -ksf "https://$address:6443/readyz" >/dev/null &&
  curl -ksf https://127.0.0.1:10257/healthz >/dev/null && curl -ksf https://127.0.0.1:10259/readyz >/dev/null; do
  sleep 0.1
done

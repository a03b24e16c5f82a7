# An etcd member that kubeadm creates on a machine of its own, with a kubelet and containerd, as in its guide "Set up a
# High Availability etcd Cluster with kubeadm". The kubelet has a configuration and does not run yet. $version is that of
# Kubernetes, $etcd that of etcd, $name the member's, $address the machine's.
set -eu
cat >/root/kubeadm.yaml <<CONFIG
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint:
  advertiseAddress: $address
nodeRegistration:
  name: $name
  criSocket: unix:///run/containerd/containerd.sock
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v$version
etcd:
  local:
    imageTag: $etcd-0
CONFIG
kubeadm init phase certs etcd-ca --config /root/kubeadm.yaml
for certificate in etcd-server etcd-peer etcd-healthcheck-client apiserver-etcd-client; do
  kubeadm init phase certs "$certificate" --config /root/kubeadm.yaml
done
systemctl start kubelet
kubeadm init phase etcd local --config /root/kubeadm.yaml
for _ in $(seq 120); do
  if curl --silent --fail http://127.0.0.1:2381/readyz >/dev/null; then exit 0; fi
  sleep 0.5
done
echo "etcd is not ready" >&2
exit 1

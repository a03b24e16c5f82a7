# The control plane that kubeadm init configures, on a machine without containers. $version is that of Kubernetes,
# $address the machine's, $endpoint the controlPlaneEndpoint.
set -eu
cat >/root/kubeadm.yaml <<CONFIG
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint:
  advertiseAddress: $address
nodeRegistration:
  name: old
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v$version
controlPlaneEndpoint: $endpoint
CONFIG
for phase in 'certs all' 'kubeconfig admin' 'kubeconfig super-admin' 'kubeconfig controller-manager'; do
  # shellcheck disable=SC2086 # a phase is one or two words
  kubeadm init phase $phase --config /root/kubeadm.yaml
done
# The endpoint is not served yet: the super-administrator connects to the machine.
sed -i "s#server: .*#server: https://$address:6443#" /etc/kubernetes/super-admin.conf
pki=/etc/kubernetes/pki
systemd-run --quiet --unit=old-etcd etcd --name=old --data-dir=/var/lib/old-etcd --client-cert-auth \
  --listen-client-urls=https://127.0.0.1:2379 --advertise-client-urls=https://127.0.0.1:2379 \
  --listen-peer-urls=http://127.0.0.1:2380 --trusted-ca-file=$pki/etcd/ca.crt --cert-file=$pki/etcd/server.crt \
  --key-file=$pki/etcd/server.key
systemd-run --quiet --unit=old-apiserver --property=Restart=always kube-apiserver --advertise-address="$address" \
  --authorization-mode=Node,RBAC --enable-bootstrap-token-auth --client-ca-file=$pki/ca.crt \
  --etcd-servers=https://127.0.0.1:2379 --etcd-cafile=$pki/etcd/ca.crt --etcd-certfile=$pki/apiserver-etcd-client.crt \
  --etcd-keyfile=$pki/apiserver-etcd-client.key --tls-cert-file=$pki/apiserver.crt \
  --tls-private-key-file=$pki/apiserver.key --service-cluster-ip-range=10.96.0.0/12 \
  --service-account-issuer=https://kubernetes.default.svc.cluster.local --service-account-key-file=$pki/sa.pub \
  --service-account-signing-key-file=$pki/sa.key --proxy-client-cert-file=$pki/front-proxy-client.crt \
  --proxy-client-key-file=$pki/front-proxy-client.key --requestheader-client-ca-file=$pki/front-proxy-ca.crt \
  --requestheader-allowed-names=front-proxy-client --requestheader-username-headers=X-Remote-User \
  --requestheader-group-headers=X-Remote-Group --requestheader-extra-headers-prefix=X-Remote-Extra-
systemd-run --quiet --unit=old-controllers --property=Restart=always --property=RestartSec=1 kube-controller-manager \
  --kubeconfig=/etc/kubernetes/controller-manager.conf --root-ca-file=$pki/ca.crt --use-service-account-credentials \
  --service-account-private-key-file=$pki/sa.key --cluster-signing-cert-file=$pki/ca.crt \
  --cluster-signing-key-file=$pki/ca.key --controllers='*,bootstrapsigner,tokencleaner'

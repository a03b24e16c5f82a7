# A control plane that kubeadm init creates, with a kubelet and containerd. $version is that of Kubernetes, $etcd that
# of etcd, $name the node's, $address the machine's, $endpoint and $port (6443) the controlPlaneEndpoint. Patches in
# /root/patches are applied.
set -eu
mkdir -p /root/patches
cat >/root/kubeadm.yaml <<CONFIG
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint:
  advertiseAddress: $address
nodeRegistration:
  name: $name
  criSocket: unix:///run/containerd/containerd.sock
patches:
  directory: /root/patches
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v$version
controlPlaneEndpoint: $endpoint:${port:-6443}
networking:
  podSubnet: 10.244.0.0/16
apiServer:
  extraArgs:
    - name: event-ttl
      value: 2h
  extraVolumes:
    - name: extra
      hostPath: /srv/extra
      mountPath: /srv/mounted
      readOnly: true
      pathType: DirectoryOrCreate
etcd:
  local:
    imageTag: $etcd-0
    extraArgs:
      - name: max-txn-ops
        value: "200"
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
failSwapOn: false
failCgroupV1: false
evictionHard: {memory.available: 1Mi, nodefs.available: 1%, imagefs.available: 1%}
imageGCHighThresholdPercent: 100
CONFIG
kubeadm init --config /root/kubeadm.yaml --skip-phases=preflight,addon

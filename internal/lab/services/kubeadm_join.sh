# Joins a machine to the control plane that kubeadm init has created. $name is the node's, $address the machine's,
# $endpoint and $port (6443) the controlPlaneEndpoint, $token, $hash and $key what kubeadm init's machine has printed.
set -eu
kubeadm join "$endpoint:${port:-6443}" --token "$token" --discovery-token-ca-cert-hash "sha256:$hash" --control-plane \
  --certificate-key "$key" --apiserver-advertise-address "$address" --node-name "$name" \
  --cri-socket unix:///run/containerd/containerd.sock --skip-phases=preflight

# Installs containerd, after containers_prepare.sh. sandbox_image is set by the caller.
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get install -y -q --no-install-recommends containerd runc containernetworking-plugins
mkdir -p /etc/containerd /etc/cni/net.d
# restrict_oom_score_adj: this computer may not lower the score of a process.
cat > /etc/containerd/config.toml <<CONFIG
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "$sandbox_image"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
CONFIG
cat > /etc/cni/net.d/10-lab.conflist <<'CONFIG'
{"cniVersion": "0.4.0", "name": "lab", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isDefaultGateway": true, "ipMasq": false,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}
]}
CONFIG
systemctl restart containerd

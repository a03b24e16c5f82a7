# Installs containerd on a machine that was booted for containers. sandbox_image is set by the caller.
set -eu
export DEBIAN_FRONTEND=noninteractive

# nspawn mounts the controllers of cgroups v1 read-only, and the kubelet makes groups in them.
cat > /usr/local/sbin/cgroups-writable <<'SCRIPT'
#!/bin/sh
mount -o remount,bind,rw /sys/fs/cgroup
for group in /sys/fs/cgroup/*/; do
  mountpoint -q "$group" && mount -o remount,bind,rw "$group"
done
exit 0
SCRIPT
chmod 755 /usr/local/sbin/cgroups-writable
cat > /etc/systemd/system/cgroups-writable.service <<'UNIT'
[Unit]
Before=containerd.service kubelet.service
[Service]
Type=oneshot
ExecStart=/usr/local/sbin/cgroups-writable
RemainAfterExit=yes
[Install]
WantedBy=multi-user.target
UNIT
systemctl enable --now --quiet cgroups-writable.service

# As kubeadm's documentation asks for.
echo net.ipv4.ip_forward=1 > /etc/sysctl.d/kubernetes.conf
sysctl -q -p /etc/sysctl.d/kubernetes.conf

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
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}
]}
CONFIG
systemctl restart containerd

# Prepares a machine that was booted for containers: cgroups that the kubelet may write, and forwarding.
set -eu

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


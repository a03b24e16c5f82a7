# Removes the endpoint from the machine, unless the machine has another one. kube-vip ends first. The record is
# removed last, so that no other process begins before everything is done. Go sets unit.
until mkdir -p "$config" && lock; do :; done
unless_other
rm -f "$config/registered"
flush "$config"
if systemctl cat "$unit" >/dev/null 2>&1; then
  systemctl stop "$unit"
  systemctl reset-failed "$unit" 2>/dev/null || true
fi
for device in $(ip -o address show to "$vip/$length" | awk '{ print $2 }'); do
  ip address delete "$vip/$length" dev "$device"
done
rm -f "/etc/systemd/system/$unit" "/etc/systemd/system/multi-user.target.wants/$unit"
rm -f "/etc/systemd/system/.$unit.kube-"* "/etc/systemd/system/multi-user.target.wants/.$unit.kube-"*
systemctl daemon-reload
rm -rf /opt/kube/endpoint-kube-vip /run/kube-vip-inherit
rmdir --ignore-fail-on-non-empty /opt/kube 2>/dev/null || true
rm -rf "$config"
flush /etc /opt /etc/systemd/system /etc/systemd/system/multi-user.target.wants
systemctl daemon-reload
echo ours

# Removes the endpoint from the machine, unless the machine has another one. The address is withdrawn
# first. The record is removed last, so that no other process begins before everything is done.
create_and_lock
unless_other
rm -f "$config/registered"
flush "$config"
withdraw
for unit in kube-endpoint-bgp-health.service kube-endpoint-bgp.service kube-endpoint-bgp-address.service; do
  if systemctl cat "$unit" >/dev/null 2>&1; then
    systemctl stop "$unit"
    systemctl reset-failed "$unit" 2>/dev/null || true
  fi
  rm -f "/etc/systemd/system/$unit" "/etc/systemd/system/multi-user.target.wants/$unit"
  rm -f "/etc/systemd/system/.$unit.kube-"* "/etc/systemd/system/multi-user.target.wants/.$unit.kube-"*
done
systemctl daemon-reload
rm -rf /opt/kube/endpoint-bgp
rmdir --ignore-fail-on-non-empty /opt/kube 2>/dev/null || true

remove_packages
rm -rf "$config"
flush_packages
systemctl daemon-reload
echo ours

# Removes the endpoint from the machine, unless the machine has another one. The address is withdrawn
# first. The record is removed last, so that no other process begins before everything is done.
# shellcheck disable=SC2086 # $brought is a list of words
until mkdir -p "$config" && lock; do :; done
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

# Only packages that the endpoint installed are removed, and of these only packages that nothing else
# requires by now: dpkg and rpm refuse to break another package.
brought=$(cat "$state/installed" 2>/dev/null || true)
if [ -n "$brought" ]; then
  if command -v dpkg >/dev/null; then
    DEBIAN_FRONTEND=noninteractive dpkg --purge $brought >"$state/log" 2>&1 || true
  else
    rpm -e $brought >"$state/log" 2>&1 || true
  fi
  sync -f / /usr /etc /var 2>/dev/null || sync
fi
rm -rf "$state"
rm -rf "$config"
flush /etc /opt /var/lib /etc/systemd/system /etc/systemd/system/multi-user.target.wants
systemctl daemon-reload
echo ours

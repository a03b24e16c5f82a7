# Removes the endpoint from the machine, unless the machine has another one. kube-vip ends first. The record is
# removed last, so that no other process begins before everything is done. An address that somebody else gives to the
# machine stays: the endpoint may never have got further than its registration. The kubelet gets the manifest of a
# static pod back if its takeover is not complete. Go sets unit, and manifests, the paths of static pods from which the
# address may be taken over.
create_and_lock
unless_other
given=no # whether the machine may have the address from the endpoint
if [ "$(whose)" = ours ]; then given=yes; fi
rm -f "$config/registered"
flush "$config"
if systemctl cat "$unit" >/dev/null 2>&1; then
  given=yes
  systemctl stop "$unit"
  systemctl reset-failed "$unit" 2>/dev/null || true
fi
if [ -n "$(pods)" ]; then given=no; fi # the pod has the address, or may get it
if [ $given = yes ]; then
  for device in $(ip -o address show to "$vip/$length" | awk '{ print $2 }'); do
    ip address delete "$vip/$length" dev "$device"
  done
fi
for manifest in $manifests; do
  former=$config/inherited/${manifest##*/}.pending
  if [ -e "$former" ] && [ ! -e "$manifest" ] && [ -d "${manifest%/*}" ]; then
    mv "$former" "$manifest"
    flush "$manifest" "${manifest%/*}"
  fi
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

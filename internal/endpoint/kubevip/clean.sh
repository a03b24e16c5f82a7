# Removes the endpoint from the machine, unless the machine has another one. kube-vip ends first. The record is
# removed last, so that no other process begins before everything is done. An address that somebody else gives to the
# machine stays: the endpoint may never have got further than its registration. The kubelet gets the manifest of a
# static pod back if its takeover is not complete. If it cannot, nothing is changed: there is no other copy. Go sets
# unit, and manifests, the paths of static pods from which the address may be taken over.
create_and_lock
unless_other

# kept MANIFEST: prints the path of what is kept of it while its takeover is not complete.
kept() { echo "$config/inherited/${1##*/}.pending"; }

back='' # the manifest that the kubelet gets back: one, because each of them starts a pod for the address
for manifest in $manifests; do
  if [ -z "$back" ] && [ -e "$(kept "$manifest")" ]; then back=$manifest; fi
done
for manifest in $manifests; do
  if [ -e "$manifest" ] && grep -qwF -- "$vip" "$manifest"; then back=''; fi # the kubelet has one
done
if [ -n "$back" ] && { [ -e "$back" ] || [ ! -d "${back%/*}" ]; }; then
  echo "the kubelet cannot get the static pod of kube-vip back: $back has another pod, or its directory is missing;" \
    "move $(kept "$back") to where it is needed, or remove it, then apply again" >&2
  exit 1
fi
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
if [ -n "$back" ]; then
  mv "$(kept "$back")" "$back"
  flush "$back" "${back%/*}"
fi
rm -f "/etc/systemd/system/$unit" "/etc/systemd/system/multi-user.target.wants/$unit"
rm -f "/etc/systemd/system/.$unit.kube-"* "/etc/systemd/system/multi-user.target.wants/.$unit.kube-"*
systemctl daemon-reload
rm -rf /opt/kube/endpoint-kube-vip /run/kube-vip-inherit
rmdir --ignore-fail-on-non-empty /opt/kube 2>/dev/null || true
rm -rf "$config"
flush /etc /opt /etc/systemd/system /etc/systemd/system/multi-user.target.wants
systemctl daemon-reload
echo ours

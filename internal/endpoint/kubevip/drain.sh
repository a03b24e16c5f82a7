# Takes the replica out of rotation, and keeps it so after a restart of the machine. The agent ends kube-vip, which
# releases the Lease, and removes the address. The machine of a replica that is removed ends as a control plane: its
# kubelet gets no static pod back that may take the address there. Go sets unit, and removed (yes or no).
if [ -n "$(pods)" ]; then
  echo "kube-vip of a static pod still has the address, or may get it: apply without other changes first" >&2
  exit 1
fi
if [ ! -d "$config" ]; then
  echo absent
  exit 0
fi
lock
unless_other
if [ "$removed" = yes ]; then complete_takeover; fi
rm -f "$config/registered"
flush "$config"
if systemctl is-active --quiet "$unit"; then
  systemctl restart "$unit"
else
  systemctl stop "$unit" 2>/dev/null || true
fi
for device in $(ip -o address show to "$vip/$length" | awk '{ print $2 }'); do
  ip address delete "$vip/$length" dev "$device"
done
echo ours

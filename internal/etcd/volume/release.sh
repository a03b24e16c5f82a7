# Writes the identity $identity, if the volume is mounted, and unmounts it.
if find_volume && in_place; then
  [ -z "$identity" ] || write_identity "$identity"
  systemctl stop etcd-volume.service 2>/dev/null || true
  ! in_place || umount -- "$mount"
fi

# Writes the identity $identity, if the volume is mounted, and unmounts it.
if find_volume && in_place && [ -n "$identity" ]; then write_identity "$identity"; fi
systemctl stop etcd-volume.service 2>/dev/null || true
if find_volume && in_place; then umount -- "$mount"; fi
rmdir -- "$mount" 2>/dev/null || true

# Grows the file system of the mounted volume to the size of its device. If that fails, it stays drift.
if ! find_volume || ! in_place; then
  echo "the volume is not mounted at $mount" >&2
  exit 1
fi
probe_volume
case $kind in
ext4) resize2fs "$volume" >/dev/null || echo "the file system of $volume did not grow" >&2 ;;
xfs) xfs_growfs "$mount" >/dev/null || echo "the file system of $volume did not grow" >&2 ;;
esac

# Mounts the volume and writes its identity, $identity. With $make, it makes a file system of that type on it before,
# if there is nothing on the device.
umask 022
find_volume || { echo "the volume ${device:-$uuid} is not attached to this machine" >&2; exit 1; }
one_volume
if ! in_place; then
  [ -z "$(mounted_here)" ] || { echo "something else is mounted at $mount" >&2; exit 1; }
  if [ -n "$make" ]; then
    probe_volume
    case $kind in
    nothing)
      # Multiple mount protection: a second machine cannot mount it while this one has it.
      case $make in
      ext4) mkfs.ext4 -q -O mmp -L kube-etcd -- "$volume" ;;
      xfs) mkfs.xfs -q -L kube-etcd "$volume" ;;
      esac
      sync "$volume"
      ;;
    "$make") ;; # an interrupted run has made it
    *) echo "there is $kind on $volume by now: no file system is made" >&2; exit 1 ;;
    esac
  fi
  mount_volume
fi
# etcd makes no links. On a volume from a machine that was taken over, one leads what is done as root to another place.
if [ -n "$(find "$mount" -xdev -type l -print -quit)" ]; then
  umount -- "$mount" || true
  echo "there are symbolic links on the volume (find DIRECTORY -type l), and etcd makes none: remove them" >&2
  exit 1
fi
write_identity "$identity"
if ! systemctl is-active --quiet etcd.service; then
  # What is only in the log of the file system is not seen by a machine that looks without mounting it for writing.
  umount -- "$mount"
  mount_volume
fi

# Mounts and unmounts the volume of an etcd member for etcd-volume.service. It mounts only the volume whose identity
# names this member and this machine: after the volume was given to another machine, this one leaves it alone.
case $1 in
mount)
  tries=20
  until find_volume; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || { echo "the volume ${device:-$uuid} is not attached to this machine" >&2; exit 1; }
    sleep 1
  done
  one_volume
  if in_place; then
    seen=$(sh -c "$look" look "$mount")
  else
    probe_volume
    seen=$(peek)
  fi
  text=$(printf '%s\n' "$seen" | sed -n 's/^identity //p' | base64 -d || true)
  for line in "\"cluster_id\": \"$cluster\"" "\"name\": \"$name\"" "\"machine_id\": \"$(cat /etc/machine-id)\""; do
    case $text in
    *"$line"*) ;;
    *)
      echo "the volume $volume is not mounted: its kube-etcd-member.json does not say $line" >&2
      exit 1
      ;;
    esac
  done
  case $text in *'"state": "re'*) echo "the volume $volume was released, or its member removed" >&2; exit 1 ;; esac
  if ! in_place; then
    ! damaged || { echo "the file system of $volume has errors: run e2fsck -f $volume, then apply again" >&2; exit 1; }
    mount_volume
  fi
  # etcd has not waited for a volume that is attached later.
  if systemctl is-enabled --quiet etcd.service; then systemctl start --no-block etcd.service; fi
  ;;
unmount)
  if find_volume && in_place; then umount -- "$mount"; fi
  ;;
esac

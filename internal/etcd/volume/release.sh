# Unmounts the volume, if it is mounted, and writes its identity $identity: that it is released only when nothing uses it
# any more, and that its member has left the cluster before, whatever uses it. If the volume stays in use, it is mounted
# as before, and the next attempt begins again.

# refuse CAUSE fails.
refuse() {
  echo "the volume $volume is still in use, and was not released: $1" >&2
  [ -z "$mounted" ] || in_place || mount_volume
  exit 1
}

# unmount tries for a few seconds: what was just stopped, or looks at the machine now, may need a moment.
unmount() {
  tries=5
  while in_place && ! umount -- "$mount"; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || refuse "processes have files on it open: fuser -vm $mount lists them"
    sleep 1
  done
  while user=$(users_of_volume | head -n 1 | cut -d ' ' -f 1,2) && [ -n "$user" ]; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || refuse "$(place_of "$user")"
    sleep 1
  done
}

released=''
case $identity in *'"state": "released"'*) released=yes ;; esac
mounted=''
if find_volume && in_place; then
  mounted=yes
  [ -z "$identity" ] || [ -n "$released" ] || write_identity "$identity"
fi
systemctl stop etcd-volume.service 2>/dev/null || true
if [ -n "$mounted" ] || find_volume; then # by its name, a copy could be taken for what was mounted
  unmount
  if [ -n "$mounted" ] && [ -n "$released" ]; then
    mount_volume
    write_identity "$identity"
    unmount
  fi
fi
rmdir -- "$mount" 2>/dev/null || true

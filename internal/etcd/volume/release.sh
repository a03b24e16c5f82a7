# Unmounts the volume, if it is mounted, after it has written its identity $identity. If the volume stays in use, it is
# mounted as before and not released: the next attempt begins again.

# refuse CAUSE: fails. The volume of a member that has left its cluster says so from now on, whatever still uses it.
refuse() {
  echo "the volume $volume is still in use, and was not released: $*" >&2
  [ -n "$mounted" ] || exit 1
  in_place || mount_volume
  case $identity in
  *'"state": "released"'*)
    if [ -n "$had" ]; then write_identity "$had"; else rm -f -- "$mount/kube-etcd-member.json"; fi
    ;;
  esac
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
    [ "$tries" -gt 0 ] || refuse "process ${user% *} has it mounted at ${user#* }, in its mount namespace: systemctl" \
      "status ${user% *} says what it is"
    sleep 1
  done
}

had=''
mounted=''
if find_volume && in_place; then
  mounted=yes
  if [ -n "$identity" ]; then
    had=$(sh -c "$look" look "$mount" | sed -n 's/^identity \([A-Za-z0-9+/=]*\)$/\1/p' | base64 -d)
    write_identity "$identity"
  fi
fi
systemctl stop etcd-volume.service 2>/dev/null || true
if find_volume; then unmount; fi
rmdir -- "$mount" 2>/dev/null || true

# Makes the data in $archived the member's again, by renaming it.
if [ ! -e "$data/member" ]; then
  [ "$(mount_of "$archived/member")" = "$(mount_of "$data")" ]
  mv -T -- "$archived/member" "$data/member"
fi
chown -R etcd:etcd "$data/member"
sync "$data" "$archived" 2>/dev/null || sync
rmdir "$archived" 2>/dev/null || true

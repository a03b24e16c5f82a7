# Makes the data in $root/restoring the member's, by renaming it. Its start gives it to the user that runs the member.
[ ! -d "$root" ] || (enter)
if [ ! -e "$data/member" ]; then
  [ -e "$root/restoring/key" ]
  mv -T -- "$root/restoring/member" "$data/member"
fi
sync "$data" 2>/dev/null || sync
rm -rf "$root/restoring.former" "$root/restoring"

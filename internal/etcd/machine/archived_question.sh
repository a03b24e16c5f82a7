# Prints what the machine has of the archived data directory $archived. It changes nothing.
if [ -d "$archived/member" ] && [ ! -L "$archived/member" ] && [ ! -L "$archived" ]; then
  echo 'archived data'
  [ "$(mount_of "$archived/member")" != "$(mount_of "$data")" ] || echo 'archived beside'
  [ -z "$(find "$archived/member" -xdev -type l -print -quit)" ] || echo 'archived links'
  log=$(find "$archived/member/wal" -maxdepth 1 -type f -name '*.wal' | LC_ALL=C sort | head -n 1)
  [ -z "$log" ] || printf 'archived log %s\n' "$(head -c 512 "$log" | base64 -w 0)"
fi

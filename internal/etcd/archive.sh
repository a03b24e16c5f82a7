# Puts the content of the data directory away. The directory itself may be a mount
# point, so it is emptied rather than moved. $data is the directory, $archive where
# its content goes, $archives the directory of all archives.
if [ -d "$data" ] && [ -n "$(ls -A -- "$data")" ]; then
  (umask 077; mkdir -p -- "$archive")
  chmod 0700 -- "$archives" "$archive"
  find "$data" -mindepth 1 -maxdepth 1 -exec mv -t "$archive" -- {} +
  chown -R root:root -- "$archive"
fi
rmdir -- "$data" 2>/dev/null || true

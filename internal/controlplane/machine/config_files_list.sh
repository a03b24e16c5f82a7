# Prints the mode, owner and digest of every regular file in $files_dir.
if [ -d "$files_dir" ]; then
  cd "$files_dir" || exit
  for entry in *; do
    if [ -f "$entry" ] && [ ! -L "$entry" ]; then
      printf '%s %s\n' "$(stat -c '%a %U %G' -- "$entry")" "$(sha256sum -- "$entry")"
    fi
  done
  cd /
fi

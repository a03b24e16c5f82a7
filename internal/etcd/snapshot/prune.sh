# Removes all but the $keep newest snapshots. The new one, $file, is kept even if the
# clock is wrong.
printf '%s\n' *.db | grep '^[0-9]\{8\}T[0-9]\{6\}Z-.*\.db$' | grep -vxF -- "$file" | sort -r | tail -n "+$keep" | while read -r old; do rm -f -- "$old"; done

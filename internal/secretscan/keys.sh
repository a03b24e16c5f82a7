# Prints every file on a machine that contains a private key, except the machine's own keys,
# which existed before: its permissions, its name, and its content in base64. Mounted volumes of
# members ($volumes) are searched too.
# shellcheck disable=SC2086 # a mount point of a member has no space
find / /run $volumes -xdev \( -path /proc -o -path /sys -o -path /usr -o -path /etc/ssh \
  -o -path /etc/ssl -o -path /opt -o -path /var/lib/dpkg -o -path /var/cache -o -path /var/log \) \
  -prune -o -type f -size -512k -print0 |
  xargs -0 grep -lsE 'PRIVATE KEY-----|client-key-data:|secret: ' | sort -u |
  while read -r file; do
    mode=$(stat -c %a "$file" 2>/dev/null) || continue # it was removed meanwhile
    echo "$mode $file $(base64 -w0 "$file")"
  done

# Says which of $groups do not exist, and which of $sockets (a path a line) the API
# server's user may not open as a member of them: the socket itself, and every
# directory on the way. Before there is that user, one that owns nothing stands for it.
uid=65534 gid=65534
if getent passwd kube-apiserver >/dev/null; then
  uid=$(id -u kube-apiserver) gid=$(id -g kube-apiserver)
fi
all=$gid
for group in $groups; do
  if entry=$(getent group "$group"); then
    all=$all,$(printf '%s\n' "$entry" | cut -d : -f 3)
  else
    printf 'no group %s\n' "$group"
  fi
done
if [ -n "$sockets" ] && ! command -v setpriv >/dev/null; then
  echo 'no setpriv'
  sockets=
fi
printf '%s\n' "$sockets" | while IFS= read -r socket; do
  [ -n "$socket" ] || continue
  # shellcheck disable=SC2016 # the inner shell expands $1
  if [ ! -S "$socket" ]; then
    printf 'no socket %s\n' "$socket"
  elif ! setpriv --reuid="$uid" --regid="$gid" --groups="$all" sh -c '[ -w "$1" ]' sh "$socket"; then
    printf 'closed %s\n' "$socket"
  fi
done
echo seen

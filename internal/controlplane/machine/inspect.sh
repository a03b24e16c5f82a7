# Reports which of $groups do not exist, and which of $sockets (one path per line) the API
# server's user cannot open as a member of them: the socket itself, or a directory on its
# path. If that user does not exist yet, a user that owns nothing is checked instead.
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

# Saves a snapshot as $dir/$file under a temporary name, verifies it and renames it into
# place. The server appends the SHA-256 of the database (etcd's maintenance API), which
# detects lost or altered data; "snapshot status" checks the structure of the database.
# Prints the size and that status. $tools is the directory of etcdctl and etcdutl,
# $endpoint the member, $pki its certificates. The directory may be below that of the
# data, whose user runs: it is entered step by step (own.sh), and paths are relative then.
# $need is the space in bytes that must be free: of the snapshot, and what etcd itself needs.
umask 077
root=${dir%/*}
cd -P -- "${root%/*}/" || exit
own "${root##*/}"
own "${dir##*/}"
exec 9>.lock
flock 9 # what another one has not finished yet must stay
rm -f ./*.part
trap 'rm -f "$file.part" "$file.part.part"' EXIT # etcdctl adds a .part of its own
trap 'exit 143' HUP INT TERM
free=$(df -B1 --output=avail . | tail -n 1 | tr -d ' ')
[ "$free" -ge "$need" ] || {
  echo "not enough space in $dir: the snapshot and the reserve of etcd need $need bytes, but ${free:-an unknown number} are free" >&2
  exit 1
}
"$tools/etcdctl" --endpoints="$endpoint" --cacert="$pki/ca.crt" --cert="$pki/healthcheck-client.crt" --key="$pki/healthcheck-client.key" \
  --command-timeout=10m snapshot save "$file.part" >/dev/null
size=$(stat -c %s "$file.part")
digest=$(tail -c 32 "$file.part" | od -An -v -tx1 | tr -d ' \n')
if [ "$digest" != "$(head -c $((size - 32)) "$file.part" | sha256sum | cut -d ' ' -f 1)" ]; then
  echo "the snapshot is corrupt: its SHA-256 does not match its content" >&2
  exit 1
fi
status=$("$tools/etcdutl" snapshot status "$file.part" --write-out=json) || exit 1
sync "$file.part" 2>/dev/null || sync
mv -fT "$file.part" "$file"
sync . 2>/dev/null || sync
printf 'size %s\n%s\n' "$size" "$status"

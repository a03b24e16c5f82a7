# Runs etcd's own check for content of the v2 store. The check needs a directory that
# is not in use: it renames files that it cannot read, which could be a file that etcd
# is writing. So it gets a directory with hard links to the same files, where a rename
# affects only the links. It uses the tool of the running version, because 3.6 has none.
# $data is the data directory, $tools the directory of etcdutl. The links are in root's
# directory of archives (archive.sh): in its own one, etcd's user, who runs, could keep a
# link that root has made to a file of somebody else. Paths are relative to it.
umask 077
links=.kube-v2store
enter
rm -rf -- "$links" "$data/.kube-v2store" # where an earlier version has made them, if it was killed
trap 'rm -rf -- "$links"; rmdir -- "$root" 2>/dev/null || true' EXIT
mkdir -p -- "$links/member/snap" "$links/member/wal"
find "$data/member/wal" -maxdepth 1 -name '*.wal' ! -type d -exec cp -lP -t "$links/member/wal" -- {} + || true
find "$data/member/snap" -maxdepth 1 -name '*.snap' ! -type d -exec cp -lP -t "$links/member/snap" -- {} + || true
[ -n "$(ls "$links/member/wal")" ] || { echo "no log file of etcd could be linked into $root/$links" >&2; exit 1; }
owner=$(stat -c %u "$data/")
if [ -n "$(find "$links" ! -type d \( ! -type f -o ! -uid "$owner" -o -links +2 \) -print -quit)" ]; then
  echo "$data/member/wal or $data/member/snap contains a link, a file with several links, or a file that does not" \
    "belong to the owner of $data: etcd makes none, so find out who made it, and remove it" >&2
  exit 1
fi
"$tools/etcdutl" check v2store --data-dir="$links" >/dev/null

# Runs etcd's own check for content of the v2 store. The check needs a directory that
# is not in use: it renames files that it cannot read, which could be a file that etcd
# is writing. So it gets a directory with hard links to the same files, where a rename
# affects only the links. It uses the tool of the running version, because 3.6 has none.
# $data is the data directory, $tools the directory of etcdutl.
umask 077
links=$data/.kube-v2store
rm -rf -- "$links"
trap 'rm -rf -- "$links"' EXIT
mkdir -p -- "$links/member/snap" "$links/member/wal"
find "$data/member/wal" -maxdepth 1 -name '*.wal' -exec cp -l -t "$links/member/wal" -- {} + || true
find "$data/member/snap" -maxdepth 1 -name '*.snap' -exec cp -l -t "$links/member/snap" -- {} + || true
[ -n "$(ls "$links/member/wal")" ] || { echo "no log file of etcd could be linked into $links" >&2; exit 1; }
"$tools/etcdutl" check v2store --data-dir="$links" >/dev/null

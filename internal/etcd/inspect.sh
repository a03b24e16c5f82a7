# Runs etcd's own check for content of the v2 store. It wants a directory that
# nobody uses: it renames what it cannot read, and of a file that etcd is just
# writing that would be the live one. So it gets one of links to the same files,
# where renaming changes nothing but the links. It is the tool of the version that
# runs: 3.6 has none. $data is the data directory, $tools where etcdutl is.
umask 077
links=$data/.kube-v2store
rm -rf -- "$links"
trap 'rm -rf -- "$links"' EXIT
mkdir -p -- "$links/member/snap" "$links/member/wal"
find "$data/member/wal" -maxdepth 1 -name '*.wal' -exec cp -l -t "$links/member/wal" -- {} + || true
find "$data/member/snap" -maxdepth 1 -name '*.snap' -exec cp -l -t "$links/member/snap" -- {} + || true
[ -n "$(ls "$links/member/wal")" ] || { echo "no log of etcd could be linked in $links" >&2; exit 1; }
"$tools/etcdutl" check v2store --data-dir="$links" >/dev/null

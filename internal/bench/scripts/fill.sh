# Saves a snapshot of a database with $bytes bytes in values of 10 kB under /bench/ as $snapshot, and prints the number
# of its keys. A scratch etcd that flushes nothing makes it, on sockets of its own.
set -e
tools=$(dirname "$(printf '%s\n' /opt/kube/etcd/*/etcdctl | tail -n 1)")
export tools
work=/root/fill
rm -rf "$work" "$snapshot"
mkdir "$work"
cd "$work"
# Few entries stay in memory and in the log: 5000 of them would be 5 GB.
"$tools/etcd" --data-dir="$work/data" --unsafe-no-fsync --quota-backend-bytes=17179869184 --snapshot-count=100 \
  --snapshot-catchup-entries=100 --log-level=error --listen-client-urls=unix://c:1 --listen-peer-urls=unix://p:1 \
  --advertise-client-urls=http://127.0.0.1:1 >log 2>&1 &
scratch=$!
ctl() { "$tools/etcdctl" --endpoints=unix://c:1 --command-timeout=10m "$@" 2>>log; }
until ctl endpoint health >/dev/null; do
  kill -0 "$scratch" 2>/dev/null || { cat log >&2; exit 1; }
  sleep 0.1
done
# A transaction is 100 values of 10 kB. etcdctl reads its comparisons, what follows if they hold, and what otherwise.
# shellcheck disable=SC2016 # the inner shell expands it
seq "$((bytes / 1000000))" | xargs -P 4 -I % sh -euc '
  head -c 750000 /dev/urandom | base64 -w 10000 |
    awk "BEGIN { print \"\" } { print \"put /bench/%/\" NR, \$0 } END { print \"\"; print \"\" }" |
    "$tools/etcdctl" --endpoints=unix://c:1 --command-timeout=1m txn >/dev/null 2>&1'
ctl snapshot save "$snapshot" >/dev/null
keys=$(ctl get /bench/ --prefix --count-only --write-out=fields | sed -n 's/^"Count" : //p')
kill "$scratch"
{ wait "$scratch" || true; } 2>/dev/null
rm -rf "$work"
echo "$keys"

# Prints the member list, then a line for each key below $prefix. It fails when a
# member is not healthy.
set -e
etcdctl member list --write-out=json
etcdctl endpoint health --cluster >/dev/null
etcdctl get --prefix --keys-only "$prefix" | grep . || true

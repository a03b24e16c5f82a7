# Prints the member list, then one line for each key below $prefix. It fails if a member
# is unhealthy.
set -e
etcdctl member list --write-out=json
etcdctl endpoint health --cluster >/dev/null
etcdctl get --prefix --keys-only "$prefix" | grep . || true

# Resets a machine of a control plane to the state before its first start: everything is
# stopped and there is no data, but programs, configuration and certificates are in place,
# and etcd is configured with its static $cluster, which is a different one in each $round.
# $units are the processes.
# shellcheck disable=SC2086 # a list of words
systemctl kill --signal=KILL $units || true
# shellcheck disable=SC2086
systemctl stop $units 2>/dev/null
systemctl reset-failed 2>/dev/null || true
rm -rf /var/lib/etcd/member
printf 'ETCD_INITIAL_CLUSTER=%s\nETCD_INITIAL_CLUSTER_STATE=new\nETCD_INITIAL_CLUSTER_TOKEN=floor-%s\n' "$cluster" "$round" >/etc/etcd/bootstrap.env
chmod 644 /etc/etcd/bootstrap.env

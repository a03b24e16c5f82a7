# Runs etcdctl against the member at an address, with the time that a large database takes, and repeats it as long as
# etcd refuses: etcd promotes no learner that is not in sync, and changes no members while too few of them have been
# connected for five seconds.
ctl() {
  endpoint=$1
  shift
  pki=/etc/kubernetes/pki/etcd
  "$(printf '%s\n' /opt/kube/etcd/*/etcdctl | tail -n 1)" --endpoints="https://$endpoint:2379" --command-timeout=1m --cacert=$pki/ca.crt --cert=$pki/healthcheck-client.crt --key=$pki/healthcheck-client.key "$@"
}
retry() {
  tries=0
  until said=$("$@" 2>&1); do
    tries=$((tries + 1))
    [ "$tries" -lt 3000 ] || { echo "$said" >&2; exit 1; }
    sleep 0.1
  done
}

# member_at ADDRESS: prints the ID of the member at the address.
member_at() { ctl "$address" member list | sed -n "s|^\([0-9a-f]*\), .*, https://$1:2380, .*|\1|p"; }

# Prints the member list as JSON, or nothing if the member does not answer. $unit is
# the unit file, $pod the definition of the pod, $endpoint the member, $pki its certificates.
tools=$(sed -n -e 's|^ExecStart=\(/[^ ]*\)/etcd .*|\1|p' -e 's|^ *terraform-provider-kube/tools: \(/[^ ]*\)$|\1|p' "$unit" "$pod" 2>/dev/null)
if [ ! -x "$tools/etcdctl" ] && pid=$(member_pid) && [ "${pid:-0}" -gt 0 ]; then
  tools=/proc/$pid/root/usr/local/bin # of the image of a static pod that kubeadm has made
fi
[ -x "$tools/etcdctl" ] && "$tools/etcdctl" --endpoints="$endpoint" --cacert="$pki/ca.crt" --cert="$pki/healthcheck-client.crt" --key="$pki/healthcheck-client.key" \
  --command-timeout=5s --write-out=json member list 2>/dev/null

# Prints the member list as JSON, or nothing if the member does not answer. $unit is
# the unit file, $pod the definition of the pod, $endpoint the member, $pki its certificates.
# A member of kubeadm has etcdctl in its image only, which would run as root on the machine:
# it is asked by etcd's JSON gateway.
tools=$(sed -n -e 's|^ExecStart=\(/[^ ]*\)/etcd .*|\1|p' -e 's|^ *terraform-provider-kube/tools: \(/[^ ]*\)$|\1|p' "$unit" "$pod" 2>/dev/null)
if [ -x "$tools/etcdctl" ]; then
  "$tools/etcdctl" --endpoints="$endpoint" --cacert="$pki/ca.crt" --cert="$pki/healthcheck-client.crt" --key="$pki/healthcheck-client.key" \
    --command-timeout=5s --write-out=json member list 2>/dev/null
else
  curl --silent --fail --globoff --noproxy '*' --max-time 5 --cacert "$pki/ca.crt" --cert "$pki/healthcheck-client.crt" --key "$pki/healthcheck-client.key" \
    --data '{"linearizable":true}' "$endpoint/v3/cluster/member/list" 2>/dev/null
fi

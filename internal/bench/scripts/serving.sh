# Waits until the machine's member serves clients: a learner may be promoted before it has loaded the data that it has
# received, and a member opens the port for clients when it has published its name.
pki=/etc/kubernetes/pki/etcd
until curl -sf --max-time 2 --cacert $pki/ca.crt --cert $pki/healthcheck-client.crt --key $pki/healthcheck-client.key \
  "https://$address:2379/health" >/dev/null; do sleep 0.1; done

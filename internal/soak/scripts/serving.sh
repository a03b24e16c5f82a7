# Prints the replicas that are registered on the machine's balancer and those that it
# sends requests to. It fails if a component is unhealthy.
set -e
for url in "https://$address:6443/readyz" https://127.0.0.1:10257/healthz https://127.0.0.1:10259/readyz "https://$vip:6443/readyz"; do
  curl --silent --show-error --insecure --fail --max-time 5 --output /dev/null "$url" || { echo "$url"; exit 1; }
done
words() { tr '\n' ' ' | sed 's/ $//'; }
echo "told $(awk '$1 == "server" { print $2 }' /etc/haproxy/kube/20-backends.cfg | words)"
echo "uses $(/opt/kube/endpoint/ask /run/kube-endpoint/haproxy.sock 'show stat -1 4 -1' |
  awk -F, '$1 == "kube-apiserver" && $18 == "UP" { print $2 }' | words)"

# Prints the replicas that are registered on the machine's balancer and those that it
# sends requests to. It comes after components.sh.
words() { tr '\n' ' ' | sed 's/ $//'; }
echo "told $(awk '$1 == "server" { print $2 }' /etc/haproxy/kube/20-backends.cfg | words)"
echo "uses $(/opt/kube/endpoint/ask /run/kube-endpoint/haproxy.sock 'show stat -1 4 -1' |
  awk -F, '$1 == "kube-apiserver" && $18 == "UP" { print $2 }' | words)"

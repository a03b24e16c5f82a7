# Observes the balancer five times a second for as long as it runs, and prints a line each
# time that the result changes: the replicas that were out of rotation, because they were
# drained or because they failed their checks.
last=
while :; do
  if state=$(/opt/kube/endpoint/ask /run/kube-endpoint/haproxy.sock "show servers state kube-apiserver"); then
    out=$(echo "$state" | awk 'NF >= 19 && !/^#/ && ($6 != 2 || $7 != 0) { print $4 }' | sort | tr '\n' ' ')
    [ "$out" = "$last" ] || echo "$out"
    last=$out
  fi
  sleep 0.2
done

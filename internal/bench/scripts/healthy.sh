# Waits until the machine's balancer has exactly $n healthy servers in rotation, and etcd
# exactly $n voters.
wanted="$n voters of $n, $n servers of $n"
look() {
  members=$(ctl "$address" member list) &&
    servers=$(/opt/kube/endpoint/ask /run/kube-endpoint/haproxy.sock 'show servers state kube-apiserver' | awk 'NF >= 19 && !/^#/ { print $6 $7 }') &&
    echo "$(echo "$members" | grep -c ', started, .*, false$') voters of $(echo "$members" | wc -l)," \
      "$(echo "$servers" | grep -c '^20$') servers of $(echo "$servers" | wc -l)"
}
tries=0
until found=$(look) && [ "$found" = "$wanted" ]; do
  tries=$((tries + 1))
  [ "$tries" -lt 150 ] || { echo "found $found, wanted $wanted"; exit 1; }
  sleep 0.2
done

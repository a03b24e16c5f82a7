# Takes server $name out. Sessions it still has stay with the worker that the
# reload leaves behind, until the replica itself ends them.
[ -e "$backends" ] || { echo absent; exit 0; }
put ''
if ! active; then
  echo stopped
  exit 0
fi
if running | grep -q "^$name "; then
  systemctl reload kube-endpoint-haproxy.service
fi
echo gone

# Deregisters server $name. Its remaining sessions stay with the old worker after the
# reload, until the replica itself closes them.
[ -e "$backends" ] || { echo absent; exit 0; }
put ''
if ! active; then
  echo stopped
  exit 0
fi
all=$(running)
if printf '%s\n' "$all" | awk -v name="$name" '$1 == name { found = 1 } END { exit !found }'; then
  systemctl reload kube-endpoint-haproxy.service
fi
echo gone

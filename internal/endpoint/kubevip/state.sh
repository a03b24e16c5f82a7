# Reports what the machine has of the endpoint. Go sets own (the machine's own address), vip, config, run (the
# directory of the running agent), program, sha256, unit and credential (the path of the kubeconfig).
ip -o address show to "$own" | awk '{ sub(/.*\//, "", $4); print "own", $2, $4; exit }'
if [ -e "$config/registered" ]; then echo registered; fi
if [ -n "$(ip -o address show to "$vip/$length")" ]; then echo address; fi
if [ -f "$program" ] && [ -x "$program" ]; then echo program; fi
if [ -n "$sha256" ] && echo "$sha256  $program" | sha256sum --check --status 2>/dev/null; then echo digest; fi
if [ -s "$credential" ]; then
  echo credential
  if [ -e "/run/credentials/$unit/kubeconfig" ] && ! cmp -s "$credential" "/run/credentials/$unit/kubeconfig"; then
    echo stale
  fi
fi
pid=$(cat "$run/pid" 2>/dev/null)
case $pid in
'' | *[!0-9]*) ;;
*)
  if [ -e "/proc/$pid/exe" ]; then
    echo running
    case $(readlink "/proc/$pid/exe") in *' (deleted)') echo replaced ;; esac
  fi
  ;;
esac
# What the agent has seen of the Lease, unless it was long ago.
if read -r at holder 2>/dev/null <"$run/seen"; then
  case $at in
  '' | *[!0-9]*) ;;
  *) if [ $(($(date +%s) - at)) -le 10 ]; then echo "lease $holder"; fi ;;
  esac
fi

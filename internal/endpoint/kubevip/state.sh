# Reports what the machine has of the endpoint. Go sets own (the machine's own address), vip, config, run (the
# directory of the running agent), program, sha256, unit, credential (the path of what systemd hands to the agent),
# credential_name (its name there), and metrics, the port where kube-vip says which sessions it has, or "".
ip -o address show to "$own" | awk '{ sub(/.*\//, "", $4); print "own", $2, $4; exit }'
if [ -e "$config/registered" ]; then echo registered; fi
if [ -n "$(ip -o address show to "$vip/$length")" ]; then echo address; fi
if [ -f "$program" ] && [ -x "$program" ]; then echo program; fi
if [ -n "$sha256" ] && echo "$sha256  $program" | sha256sum --check --status 2>/dev/null; then echo digest; fi
if [ -s "$credential" ]; then
  echo credential
  if [ -e "/run/credentials/$unit/$credential_name" ] && ! cmp -s "$credential" "/run/credentials/$unit/$credential_name"; then
    echo stale
  fi
fi
if [ -n "$(pods)" ]; then echo foreign; fi
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
# When the agent has read the Lease, in seconds that no change of the time affects, and how often it has seen that
# another machine holds it while this one has the address: it removes the address the second time.
if read -r at strangers 2>/dev/null <"$run/seen"; then
  case $at$strangers in
  '' | *[!0-9]*) ;;
  *)
    read -r now _ </proc/uptime
    if [ $((${now%.*} - at)) -le 10 ]; then
      echo lease
      if [ "${strangers:-0}" -ge 4 ]; then echo stranger; fi
    fi
    ;;
  esac
fi
if [ -n "$metrics" ]; then
  curl --silent --noproxy '*' --max-time 2 "http://127.0.0.1:$metrics/metrics" | sed -n \
    's/^kube_vip_manager_bgp_session_info{peer="\([^" ]*\)",state="SESSION_STATE_ESTABLISHED"} 1$/session \1/p'
fi

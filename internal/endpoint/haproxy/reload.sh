#!/bin/sh
# reload PID: gives HAProxy's master the new configuration and returns when a new
# worker has taken over. Connections stay with the old worker until they are closed.
# Managed by terraform-provider-kube.
set -eu
config=/etc/haproxy/kube
run=/run/kube-endpoint

ask() {
  /opt/kube/endpoint/ask "$run/haproxy.sock" "$1"
}

worker() {
  ask 'show info' 2>/dev/null | sed -n 's/^Pid: //p'
}

haproxy -c -q -f "$config"
before=$(worker)

# The new worker takes over the results of checks and draining. Otherwise it would send
# traffic to a dead replica until its own checks fail, and to one that is draining. If HAProxy
# does not say them, nothing is reloaded: those of an earlier reload may be wrong by now. A server
# with a changed address starts without them: the state contains the old port.
states=$(ask "show servers state kube-apiserver") || states=
case $states in
*'#'*) ;;
*)
  echo "HAProxy does not answer with the states of its servers" >&2
  exit 1
  ;;
esac
printf '%s\n' "$states" |
  awk 'NR == FNR { if ($1 == "server") known[$2 " " $3] = 1; next }
       /^#/ || NF < 19 { print; next }
       { at = ($5 ~ /:/ ? "[" $5 "]" : $5) ":" $19 }
       ($4 " " at) in known' "$config/20-backends.cfg" - >"$run/servers.state.new"
mv "$run/servers.state.new" "$run/servers.state"

kill -USR2 "$1"
tries=0
while now=$(worker); [ -z "$now" ] || [ "$now" = "$before" ]; do
  tries=$((tries + 1))
  [ "$tries" -lt 100 ] || { echo "no new worker after 10 s" >&2; exit 1; }
  sleep 0.1
done

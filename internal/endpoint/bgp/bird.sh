# Functions that ask and change the endpoint's own bird. No other bird has this socket.
# shellcheck disable=SC2034 # other scripts read it
config=/etc/kube-endpoint-bgp
socket=/run/kube-endpoint-bgp/bird.ctl

# bird COMMAND…: a bird that does not answer is an error.
bird() { timeout 2 birdc -s "$socket" "$@" 2>/dev/null; }

# running: whether bird has its socket. systemd removes it with bird's directory.
running() { [ -S "$socket" ]; }

# is STATE: whether the protocol that has the route is in this state.
is() { bird show protocols endpoint | grep -q "^endpoint  *Direct  *[^ ]*  *$1 "; }

# withdraw: returns when the address is not announced. A bird that does not obey is killed: its
# sessions end with it, and the next one announces nothing by itself.
withdraw() {
  running || return 0
  if bird disable endpoint >/dev/null; then
    for _ in 1 2 3 4 5 6 7 8 9 10; do
      shown=$(bird show protocols endpoint) || break
      case $shown in
      *Direct*' down '*) return 0 ;;
      esac
      sleep 0.1
    done
  fi
  if running; then systemctl kill --signal=KILL kube-endpoint-bgp.service; fi
}

# Accepts connections at $addresses, words such as 10.0.0.11:2380, until standard input ends, and at
# most for $limit seconds. What listens ends with this process, however that ends (--pdeathsig). It is a child of
# this shell: timeout(1) in between would leave it behind when a signal comes before timeout knows its child.
command -v systemd-socket-activate >/dev/null || exit 0
setpriv --pdeathsig KILL true 2>/dev/null || exit 0 # util-linux before 2.33
set --
for address in $addresses; do set -- "$@" -l "$address"; done
setpriv --pdeathsig KILL systemd-socket-activate "$@" sleep "$limit" >/dev/null 2>&1 &
listener=$!
timeout --foreground "$limit" cat >/dev/null || true
kill "$listener" 2>/dev/null || true
wait "$listener" 2>/dev/null || true

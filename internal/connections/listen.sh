# Accepts connections at $addresses, words such as 10.0.0.11:2380, until standard input ends, and at
# most for $limit seconds: also if this process is killed, or its connection was lost unnoticed.
command -v systemd-socket-activate >/dev/null || exit 0
set --
for address in $addresses; do set -- "$@" -l "$address"; done
# --foreground: in the process group of this command, so that it ends with it.
timeout --foreground "$limit" systemd-socket-activate "$@" sleep "$limit" >/dev/null 2>&1 &
listener=$!
timeout --foreground "$limit" cat >/dev/null || true
kill "$listener" 2>/dev/null || true
wait "$listener" 2>/dev/null || true

# Run by kube-restore-drill.service: verifies the snapshot, restores it beside the member's data, and serves it by the
# etcd and the API server that a restore would start. "$@" are the flags of $apiserver. Steps and what is known of the
# data go to $run/report, and a failure to $run/error.
millis() { echo $(($(date +%s%N) / 1000000)); }

step() { # NAME: what was done since the last one
  now=$(millis)
  printf 'step %s %s\n' "$1" "$((now - begun))"
  begun=$now
}

# idle_limit prints after how many seconds the API server ends that nobody has ended. Large databases get more: it reads
# $read_rate bytes in a second at least.
idle_limit() { echo $((idle + size / read_rate)); }

# serve_api starts the API server, and ends when it does, or when nobody has ended the drill for long.
serve_api() {
  (cd "$work/run" && exec "$apiserver" "$@" >"$work/apiserver.log" 2>&1) &
  server=$!
  (sleep "$(idle_limit)" && kill "$server") &
  mv "$run/report.part" "$run/report"
  wait "$server" || true
  fail "the API server ended: $(grep -E '^[EF][0-9]|rror' "$work/apiserver.log" | tail -n 3 | cut -c 1-400)"
}

main() {
  umask 077
  # shellcheck disable=SC2034 # of restore_functions.sh
  snapshot=$(cat "$run/snapshot")
  trap halt EXIT
  trap 'exit 1' HUP INT TERM
  begun=$(millis)
  verify
  step verify
  choose_bump
  build
  step restore
  serve "$work/data" --unsafe-no-fsync
  ask alarm disarm >/dev/null # of the members, if they had no space: the API server writes
  step etcd
  report
  printf 'digest %s\n' "$digest"
}

begin() { # FLAG…
  main >"$run/report.part" 2>"$run/error"
  serve_api "$@" 2>"$run/error"
}

# Shared functions of the commands that change the rotation. Go sets name, and address
# and seconds where they are used. One lock per machine prevents replicas that register
# and deregister at the same time, from any process, from losing each other's lines.
backends=$config/20-backends.cfg

if [ ! -e "$config/10-endpoint.cfg" ] || ! lock; then
  echo absent
  exit 0
fi
unless_other

ask() {
  /opt/kube/endpoint/ask "$run/haproxy.sock" "$1"
}

# runs [STATE]: reports whether HAProxy has the server at $address (in that state).
runs() {
  running | awk -v name="$name" -v at="$address" -v state="${1:-}" '
    $1 == name && $2 == at && (state == "" || $3 " " $4 " " $5 == state) { found = 1 }
    END { exit !found }'
}

# sessions: prints how many sessions the server has, including old workers. It fails if HAProxy does not answer.
sessions() {
  shown=$(answer master.sock 'show proc') || return 1
  old=$(printf '%s\n' "$shown" |
    awk '/^# old workers/ { old = 1; next } /^#/ { old = 0 } old && $2 == "worker" { print $1 }')
  shown=$(answer haproxy.sock 'show stat -1 4 -1') || return 1
  {
    printf '%s\n' "$shown"
    for pid in $old; do
      /opt/kube/endpoint/ask "$run/master.sock" "@!$pid show stat -1 4 -1" || true # it may have just exited
    done
  } | awk -F, -v name="$name" '$1 == "kube-apiserver" && $2 == name { sum += $5 } END { print sum + 0 }'
}

# clock: sets $now, in hundredths of a second.
clock() {
  read -r now _ </proc/uptime
  now=${now%.*}${now#*.}
}

# put LINE: makes LINE the server's only line ("" removes it), unless it already is. It
# renames the file after HAProxy has validated the result. A power cut leaves the old or the
# new file.
put() {
  new=$config/.backends.new
  {
    sed '/^[[:space:]]*server[[:space:]]/d' "$backends"
    {
      awk -v name="$name" '$1 == "server" && $2 != name' "$backends"
      [ -z "$1" ] || printf '%s\n' "$1"
    } | LC_ALL=C sort
  } >"$new"
  if cmp -s "$new" "$backends"; then
    rm "$new"
    return
  fi
  haproxy -c -q -f "$config/10-endpoint.cfg" -f "$new"
  chmod 644 "$new"
  flush "$new"
  mv "$new" "$backends"
  flush "$config"
}

# active: if HAProxy is not running, it reads the file when it starts.
active() {
  systemctl is-active --quiet kube-endpoint-haproxy.service
}

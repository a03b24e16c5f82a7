# A change of the kubelet's program that can be taken back, by whoever comes after it was cut off: functions for sh,
# coreutils and systemctl. The function flush must be defined.

pod_kubelet_unit=kubelet.service
# The drop-in that names the program of the kubelet, and what it was before a change of it that has not ended: a copy,
# or an empty file if there was none.
pod_program=/etc/systemd/system/$pod_kubelet_unit.d/90-kube-program.conf
pod_former=$pod_program.before
pod_uptime=/proc/uptime

# pod_kubelet_keep: keeps the drop-in before the change. What is kept stays until pod_kubelet_done.
pod_kubelet_keep() {
  [ ! -e "$pod_former" ] || return 0
  if [ -e "$pod_program" ]; then cp -p -- "$pod_program" "$pod_former.new"; else : >"$pod_former.new"; fi
  flush "$pod_former.new"
  mv -fT -- "$pod_former.new" "$pod_former"
  flush "${pod_former%/*}"
}

# pod_kubelet_done: ends the change.
pod_kubelet_done() {
  rm -f -- "$pod_former"
  flush "${pod_former%/*}"
}

# pod_kubelet_back: takes the change back, and starts the former kubelet.
pod_kubelet_back() {
  if [ -s "$pod_former" ]; then
    cp -p -- "$pod_former" "$pod_program.new"
    flush "$pod_program.new"
    mv -fT -- "$pod_program.new" "$pod_program"
  else
    rm -f -- "$pod_program"
  fi
  flush "${pod_program%/*}"
  systemctl daemon-reload
  pod_kubelet_done # the drop-in is what it was: if this is cut off, systemd itself starts a kubelet that fails with it
  systemctl restart "$pod_kubelet_unit"
}

# pod_kubelet_fails: whether systemd starts the kubelet again and again, or has given up. One that was stopped by hand,
# or that has run for a minute, does not fail, however often it was started before.
pod_kubelet_fails() {
  case $(systemctl show --property=ActiveState --value "$pod_kubelet_unit") in
  failed | activating) return 0 ;;
  active) ;;
  *) return 1 ;;
  esac
  [ "$(systemctl show --property=NRestarts --value "$pod_kubelet_unit")" != 0 ] || return 1
  systemctl show --property=ActiveEnterTimestampMonotonic --value "$pod_kubelet_unit" |
    awk 'NR == FNR { since = $1 / 1000000; next } { exit !($1 - since < 60) }' - "$pod_uptime"
}

# pod_kubelet_recover: takes back the change of an apply that was cut off, if the kubelet does not stay up since.
# Without it, no pod would start, and no later step would find out.
pod_kubelet_recover() {
  if [ -e "$pod_former" ] && pod_kubelet_fails; then pod_kubelet_back; fi
}

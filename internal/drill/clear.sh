# Removes what a drill has on the machine, also one that was cut off. $root is the directory beside the data, $run
# that of the drill in memory.
work=$root/drill
unit=kube-restore-drill
slice=kubedrill.slice

clear_up() {
  for name in "$unit-door.socket" "$unit-door.service" "$unit-fetch.service" "$unit.service"; do
    systemctl stop "$name" 2>/dev/null || true
    systemctl reset-failed "$name" 2>/dev/null || true
  done
  systemctl stop "$slice" 2>/dev/null || true
  systemctl revert "$slice" 2>/dev/null || true
  rm -rf -- "$work" "$run"
  rmdir "$root" 2>/dev/null || true
}

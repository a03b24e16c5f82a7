# Removes what a drill has on the machine, also one that was cut off. $root is the directory beside the data, $run
# that of the drill in memory.
work=$root/drill
unit=kube-restore-drill
guard=$unit-guard
slice=kubedrill.slice

# end UNIT: stops a unit, if it is there.
end() {
  systemctl stop "$1" 2>/dev/null || true
  systemctl reset-failed "$1" 2>/dev/null || true
}

# clear_up ends the guard last: if this is cut off, the guard still removes what is left. It may not outlive this, or it
# would remove what the next drill has.
clear_up() {
  for name in "$unit-door.socket" "$unit-door.service" "$unit-fetch.service" "$unit.service"; do
    end "$name"
  done
  systemctl stop "$slice" 2>/dev/null || true
  systemctl revert "$slice" 2>/dev/null || true
  rm -rf -- "$work" "$run"
  rmdir "$root" 2>/dev/null || true
  end "$guard.timer"
  end "$guard.service"
}

# end_drill clears up if there is anything of a drill. It never fails.
end_drill() {
  if [ -e "$work" ] || [ -e "$run" ] ||
    [ -n "$(systemctl list-units --all --plain --no-legend "$unit*" "$slice" 2>/dev/null)" ]; then
    clear_up || true
  fi
}

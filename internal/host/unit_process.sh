# processes UNIT…: prints one line per unit with its limits and its main process's arguments, and one line with the
# reservations of the unit and of each slice above it.
processes() {
  printf 'cgroups\t%s\n' "$(if [ -e /sys/fs/cgroup/cgroup.controllers ]; then echo 2; else echo 1; fi)"
  for unit; do
    pid=$(systemctl show --property=MainPID --value "$unit")
    printf 'process\t%s\t%s\t%s\t%s\tunit\n' "$unit" "$(systemctl show --property=MemoryMax --value "$unit")" \
      "$(systemctl show --property=CPUQuotaPerSecUSec --value "$unit")" "$([ "${pid:-0}" -gt 0 ] && base64 -w 0 "/proc/$pid/cmdline")"
    reserved "$unit" "$unit"
    slice=$(systemctl show --property=Slice --value "$unit")
    while [ -n "$slice" ] && [ "$slice" != -.slice ]; do
      reserved "$unit" "$slice"
      case $slice in *-*) slice=${slice%-*}.slice ;; *) slice='' ;; esac
    done
  done
}

# reserved UNIT NAME: prints what a unit, or a slice above it, reserves.
reserved() {
  printf 'reserved\t%s\t%s\t%s\n' "$1" "$2" \
    "$(systemctl show --property=MemoryMin,MemoryLow,CPUWeight,IOWeight "$2" | tr '\n' ' ')"
}

process_proc=/proc

# containerized NAME PID: prints one line with the arguments of a process of a container, and the values of the cgroups
# of its container and of its pod.
containerized() {
  printf 'process\t%s\t\t\t%s\tcontainer\n' "$1" "$(base64 -w 0 "$process_proc/$2/cmdline")"
  for controller in memory cpu; do
    group=$(group_of "$2" "$controller" 2>/dev/null) || group=''
    while [ -n "$group" ] && [ -d "$group" ]; do
      for file in memory.max memory.limit_in_bytes memory.min cpu.max cpu.weight cpu.shares; do
        case $file in "$controller".*) ;; *) continue ;; esac
        [ ! -r "$group/$file" ] || printf 'group\t%s\t%s\t%s\n' "$1" "$file" "$(head -c 64 "$group/$file" | tr '\n\t' '  ')"
      done
      if [ "$controller" = cpu ] && [ -r "$group/cpu.cfs_quota_us" ]; then
        printf 'group\t%s\tcpu.max\t%s %s\n' "$1" "$(cat "$group/cpu.cfs_quota_us")" "$(cat "$group/cpu.cfs_period_us")"
      fi
      case ${group##*/} in pod* | *-pod*) break ;; esac
      group=${group%/*}
      case $group in */pod* | *-pod*) ;; *) break ;; esac
    done
  done
}

# group_of PID CONTROLLER: prints the directory of the process's group: that of the hierarchy of cgroup v1 with the
# controller, or of cgroup v2. It prints nothing if this machine does not see it.
group_of() {
  awk -v controller="$2" '
    function has(list, names, i, n) {
      n = split(list, names, ",")
      for (i = 1; i <= n; i++) if (names[i] == controller) return 1
      return 0
    }
    FILENAME ~ /mountinfo$/ {
      for (i = 7; i < NF && $i != "-"; i++) ;
      if ($(i + 1) == "cgroup" && has($NF)) { root1 = $4; point1 = $5 }
      if ($(i + 1) == "cgroup2") { root2 = $4; point2 = $5 }
      next
    }
    {
      split($0, part, ":")
      path = substr($0, length(part[1]) + length(part[2]) + 3)
      if (part[1] == "0" && part[2] == "") path2 = path
      if (has(part[2])) path1 = path
    }
    END {
      if (point1 != "") { root = root1; point = point1; path = path1 } else { root = root2; point = point2; path = path2 }
      if (point == "" || path == "" || (path "/") ~ /\/\.\.\//) exit
      if (root != "/") {
        if (index(path "/", root "/") != 1) exit
        path = substr(path, length(root) + 1)
      }
      print point path
    }' "$process_proc/self/mountinfo" "$process_proc/$1/cgroup"
}

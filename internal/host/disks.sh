# disks_of MAJOR:MINOR [DEPTH]: prints the whole disks below a block device, by the kernel's names. A partition and a
# mapped device (LVM, LUKS, RAID) have the queues of what is below them.
disks_of() {
  at=$(readlink -f "/sys/dev/block/$1") || return 0
  [ -d "$at" ] && [ "${2:-0}" -lt 8 ] || return 0
  [ ! -e "$at/partition" ] || at=$(dirname "$at")
  lower=$(cat "$at"/slaves/*/dev 2>/dev/null)
  if [ -z "$lower" ]; then
    basename "$at"
    return
  fi
  for device in $lower; do (disks_of "$device" $((${2:-0} + 1))); done
}

# device_of MAJOR:MINOR SOURCE: btrfs has numbers of its own, and names a device.
device_of() {
  case $1 in 0:*) ;; *)
    echo "$1"
    return
    ;;
  esac
  [ -b "$2" ] || return 0
  numbers=$(stat -L -c '%t %T' "$2")
  echo "$((0x${numbers% *})):$((0x${numbers#* }))"
}

# disks_at DIR: prints the numbers of the file system of a directory, and after a tab its disks.
disks_at() {
  target=$(df --output=target "$1" | tail -n 1)
  TARGET=$target awk '$5 == ENVIRON["TARGET"] && NR < 2000 { i = 6; while ($i != "-") i++; line = $3 " " $(i + 2) } END { print line }' \
    /proc/self/mountinfo | while read -r numbers source; do
    printf '%s\t%s\n' "$numbers" "$(disks_of "$(device_of "$numbers" "$source")" | sort -u | tr '\n' ' ')"
  done
}

disks_sys=/sys

# weighs DISK…: prints whether shares of all these disks are in effect: by the scheduler bfq, or by the kernel's io.cost.
weighs() {
  weighed=$([ "$#" -eq 0 ] || echo yes)
  for disk; do
    grep -qs '\[bfq\]' "$disks_sys/block/$disk/queue/scheduler" ||
      grep -qs "^$(cat "$disks_sys/block/$disk/dev" 2>/dev/null) .*enable=1" "$disks_sys/fs/cgroup/io.cost.qos" || weighed=''
  done
  printf 'weighs\t%s\n' "${weighed:-no}"
}

# weighs_below DIR: weighs the disks of a directory.
weighs_below() {
  [ -d "$1" ] || return 0
  # shellcheck disable=SC2046 # names of disks
  weighs $(disks_at "$1" | cut -f 2)
}

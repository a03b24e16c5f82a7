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

# disks_below DIR: prints a line for each mounted file system and swap device with its disks, that of DIR first.
disks_below() {
  [ -d "$1" ] || return 0
  target=$(df --output=target "$1" | tail -n 1)
  TARGET=$target awk '$5 == ENVIRON["TARGET"] && NR < 2000 { i = 6; while ($i != "-") i++; line = $3 " " $(i + 2) } END { print line }' \
    /proc/self/mountinfo | while read -r numbers source; do
    printf 'data\t%s\t%s\n' "$numbers" "$(disks_of "$(device_of "$numbers" "$source")" | sort -u | tr '\n' ' ')"
  done
  awk 'NR < 2000 { i = 6; while ($i != "-") i++; print $3, $(i + 2), $5 }' /proc/self/mountinfo |
    while read -r numbers source point; do
      device=$(device_of "$numbers" "$source")
      [ -z "$device" ] || printf 'mount\t%s\t%s\t%s\n' "$numbers" "$point" "$(disks_of "$device" | sort -u | tr '\n' ' ')"
    done
  tail -n +2 /proc/swaps | while read -r source _; do
    [ ! -b "$source" ] || printf 'mount\tswap\tswap\t%s\n' "$(disks_of "$(device_of 0: "$source")" | sort -u | tr '\n' ' ')"
  done
}

argument() { # PID FLAG
  tr '\0' '\n' <"/proc/$1/cmdline" | sed -n "s/^--$2=//p" | tail -n 1
}

# certificates PID: prints the certificates, and nothing else, of the files that a member was started with.
certificates() {
  for flag in cert-file trusted-ca-file peer-cert-file peer-trusted-ca-file; do
    file=$(argument "$1" "$flag")
    [ ! -f "$file" ] || printf 'certificates\t%s\t%s\n' "$flag" \
      "$(sed -n '/^-----BEGIN CERTIFICATE-----/,/^-----END CERTIFICATE-----/p' "$file" | head -c 131072 | base64 -w 0)"
  done
}

# metrics_ports PID: prints the ports of the listeners for metrics alone.
metrics_ports() {
  argument "$1" listen-metrics-urls | tr ',' '\n' | sed -n 's/.*:\([0-9][0-9]*\)\/*$/\1/p' | sort -u
}

# runs CALENDAR: prints when a timer elapses next.
runs() {
  LC_ALL=C TZ=UTC systemd-analyze calendar --iterations=170 "$1" 2>/dev/null |
    sed -n 's/^ *\(Next elapse\|Iter[a-z.]* #[0-9]*\): /run\t/p'
}

# disks_below DIR: prints a line for each mounted file system and swap device with its disks, that of DIR first.
disks_below() {
  [ -d "$1" ] || return 0
  disks_at "$1" | sed 's/^/data\t/'
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

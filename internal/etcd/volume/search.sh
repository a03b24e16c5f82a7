# Prints the identities on volumes that are not mounted, a line "unmounted DEVICE IDENTITY" for each. It changes nothing.
# Another path to a disk is no other volume: neither what is below a multipath device, nor what is mounted by one path.
(
  set +e
  devices=$(blkid -c /dev/null -o device 2>/dev/null)
  # in_use DEVICE: reports whether it is mounted anywhere.
  in_use() { awk -v n="$(number_of "$1")" '$3 == n { mounted = 1 } END { exit !mounted }' /proc/self/mountinfo; }
  seen=''
  for volume in $devices; do
    if is_device "$volume" && in_use "$volume"; then seen="$seen $(disk_of "$volume")"; fi
  done
  for volume in $devices; do
    if ! is_device "$volume" || held "$volume"; then continue; fi
    disk=$(disk_of "$volume")
    case "$seen " in *" $disk "*) continue ;; esac
    seen="$seen $disk"
    # shellcheck disable=SC2034 # peek uses it
    kind=$(blkid -p -o value -s TYPE -- "$volume" 2>/dev/null)
    peek | while read -r word text; do
      if [ "$word" = identity ]; then printf 'unmounted %s %s\n' "$volume" "$text"; fi
    done
  done
)

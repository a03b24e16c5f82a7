# Prints the identities on volumes that are not mounted, a line "unmounted DEVICE IDENTITY" for each. It changes nothing.
(
  set +e
  blkid -c /dev/null -o device 2>/dev/null | while read -r volume; do
    [ -b "$volume" ] || continue
    number=$(number_of "$volume")
    if awk -v n="$number" '$3 == n { mounted = 1 } END { exit !mounted }' /proc/self/mountinfo; then continue; fi
    # shellcheck disable=SC2034 # peek uses it
    kind=$(blkid -p -o value -s TYPE -- "$volume" 2>/dev/null)
    peek | while read -r word text; do
      if [ "$word" = identity ]; then printf 'unmounted %s %s\n' "$volume" "$text"; fi
    done
  done
)

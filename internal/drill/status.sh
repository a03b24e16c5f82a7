# Prints why the drill does not serve, as far as its unit and its API server say.
systemctl show --property=ActiveState --value kube-restore-drill.service
tail -n 3 "$run/error" 2>/dev/null | cut -c 1-600
grep -hE 'unable to transform|no matching|failed to list|Err|^[EF][0-9]' "$root/drill/apiserver.log" 2>/dev/null |
  tail -n 4 | cut -c 1-500

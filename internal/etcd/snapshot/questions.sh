# Checks what only the machine knows about scheduled snapshots. Of the environment file,
# it checks only the existence. $schedule is the calendar expression, $environment the
# file, or empty, and $credentials the file with credentials of the store, or empty.
if command -v systemd-analyze >/dev/null && ! systemd-analyze calendar -- "$schedule" >/dev/null 2>&1; then echo calendar; fi
if [ -n "$credentials" ]; then
  case $(stat -c '%a %u %F' -- "$credentials" 2>/dev/null) in
  [46]00\ 0\ regular*) ;;
  '') echo credentials ;;
  *) echo credentials-mode ;;
  esac
fi
[ -z "$environment" ] || [ -f "$environment" ] || echo environment

# Checks what only the machine knows about scheduled snapshots. Of the environment file,
# it checks only the existence. $schedule is the calendar expression, $environment the
# file, or empty.
if command -v systemd-analyze >/dev/null && ! systemd-analyze calendar -- "$schedule" >/dev/null 2>&1; then echo calendar; fi
[ -z "$environment" ] || [ -f "$environment" ] || echo environment

# Removes the agent, and the packages that were installed for it. Go sets config, state, program,
# units (its directory), timer and service.
if [ -e "$units/$timer" ]; then
  systemctl stop "$timer" "$service"
  systemctl reset-failed "$service" 2>/dev/null || true # a round that was ended is a failure
fi
rm -f "$units/$timer" "$units/$service" "$units/timers.target.wants/$timer"
rm -rf "$program" "$state"
rmdir --ignore-fail-on-non-empty "${program%/*}" 2>/dev/null || true
remove_packages
rm -rf "$config"
flush_packages
systemctl daemon-reload

# Removes the agent. Go sets config, state, program, units (its directory), timer and service.
if [ -e "$units/$timer" ]; then
  systemctl stop "$timer" "$service"
fi
rm -f "$units/$timer" "$units/$service" "$units/timers.target.wants/$timer"
rm -rf "$config" "$program" "$state"
rmdir --ignore-fail-on-non-empty "${program%/*}" 2>/dev/null || true
flush "${config%/*}" "$units" "${program%/*}"
systemctl daemon-reload

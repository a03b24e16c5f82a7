# processes UNIT…: prints one line per unit with its limits, its reservations and its main process's arguments.
processes() {
  for unit; do
    pid=$(systemctl show --property=MainPID --value "$unit")
    printf 'process\t%s\t%s\t%s\t%s\t%s\n' "$unit" "$(systemctl show --property=MemoryMax --value "$unit")" \
      "$(systemctl show --property=CPUQuotaPerSecUSec --value "$unit")" "$([ "${pid:-0}" -gt 0 ] && base64 -w 0 "/proc/$pid/cmdline")" \
      "$(systemctl show --property=MemoryMin,MemoryLow,CPUWeight,IOWeight "$unit" | tr '\n' ' ')"
  done
}

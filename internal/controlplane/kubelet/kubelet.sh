# Prints how the kubelet of the machine runs, in lines that Read parses: the state of its unit, its command, its program
# with the version, and the API servers in its kubeconfig.
kubelet_pid=$(systemctl show --property=MainPID --value kubelet.service)
printf 'kubelet\tactive\t%s\n' "$(systemctl show --property=ActiveState --value kubelet.service)"
printf 'kubelet\tstarted\t%s\t%s\n' "${kubelet_pid:-0}" \
  "$(systemctl show --property=NRestarts --value kubelet.service)"
printf 'kubelet\tcommand\t%s\n' \
  "$(systemctl show --property=ExecStart --value kubelet.service | head -c 4096 | base64 -w 0)"
if [ "${kubelet_pid:-0}" -gt 0 ] && [ -e "/proc/$kubelet_pid/exe" ]; then
  printf 'kubelet\tprogram\t%s\n' "$(readlink "/proc/$kubelet_pid/exe" | base64 -w 0)"
  printf 'kubelet\tversion\t%s\n' "$(timeout 10 "/proc/$kubelet_pid/exe" --version 2>/dev/null | head -c 100 |
    base64 -w 0)"
fi
sed -n 's/^ *server: *//p' /etc/kubernetes/kubelet.conf 2>/dev/null | head -n 5 | while IFS= read -r kubelet_server; do
  printf 'kubelet\tserver\t%s\n' "$(printf %s "$kubelet_server" | head -c 300 | base64 -w 0)"
done

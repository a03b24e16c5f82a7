# Functions for changing the program of the kubelet. $kubelet_removed is a flag that the new one does not have any more,
# or empty: kubeadm removes it during upgrades, too.

# kubelet_tries PROGRAM: fails if the program does not take the arguments of the kubelet that runs. With --version,
# it parses them and ends.
kubelet_tries() {
  kubelet_pid=$(systemctl show --property=MainPID --value kubelet.service)
  tail -z -n +2 "/proc/$kubelet_pid/cmdline" | grep -zv -e "^--${kubelet_removed:-none}=" |
    xargs -0 timeout 20 "$1" --version >/dev/null
}

# kubelet_drops: removes the flag from the arguments that kubeadm has written.
kubelet_drops() {
  [ -n "$kubelet_removed" ] && [ -e /var/lib/kubelet/kubeadm-flags.env ] || return 0
  sed -i "s/ \\{0,1\\}--$kubelet_removed=[^\" ]*//" /var/lib/kubelet/kubeadm-flags.env
}

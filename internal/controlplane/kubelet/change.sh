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
  kubelet_flags=/var/lib/kubelet/kubeadm-flags.env
  [ -n "$kubelet_removed" ] && grep -qs -e "--$kubelet_removed=" "$kubelet_flags" || return 0
  rm -f "$kubelet_flags.kube-new"
  cp -p "$kubelet_flags" "$kubelet_flags.kube-new"
  sed "s/ \\{0,1\\}--$kubelet_removed=[^\" ]*//" "$kubelet_flags" >"$kubelet_flags.kube-new"
  flush "$kubelet_flags.kube-new"
  mv -f "$kubelet_flags.kube-new" "$kubelet_flags"
  flush "${kubelet_flags%/*}"
}

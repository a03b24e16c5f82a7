# pods: prints the process of a kube-vip that somebody else runs for the address: a static pod has its settings in the
# environment, and the agents give them as arguments. Go sets vip.
pods() {
  for exe in /proc/[0-9]*/exe; do
    case $(readlink "$exe" 2>/dev/null) in */kube-vip | */kube-vip' (deleted)') ;; *) continue ;; esac
    if tr '\0' '\n' <"${exe%/exe}/environ" 2>/dev/null | grep -qxF -e "address=$vip" -e "vip_address=$vip"; then
      basename "${exe%/exe}"
    fi
  done
}

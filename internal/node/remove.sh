# Removes the kubelet and containerd that install.go has installed, if nothing needs them any more. Go sets node_*, and
# defines remove_packages, flush_packages and flush. The record goes last, so that a removal that was cut
# off is completed by the next one. Until then it says that the installation is not complete, so that one that is wanted
# again continues.
[ -e "$node_record" ] || exit 0
for node_user in $node_users; do [ ! -e "$node_user" ] || exit 0; done
[ -z "$(ls "$node_manifests" 2>/dev/null)" ] || exit 0
[ ! -e /etc/kubernetes/kubelet.conf ] || exit 0 # somebody has made it a node
# node_empty DIR: removes a directory, and only what is in it if it is a file system of its own.
node_empty() {
  [ ! -d "$1" ] || find "$1" -xdev -mindepth 1 -delete
  rmdir -- "$1" 2>/dev/null || true
}
node_had() { grep -q "\"$1\": true" "$node_record"; }

# node_tasks: prints the tasks that run in containerd. It fails if that is not known: without an answer, a shim is a task.
node_tasks() {
  if ! systemctl is-active --quiet containerd.service && ! pgrep -x containerd-shim >/dev/null; then return 0; fi
  node_spaces=k8s.io
  if node_had containerd; then node_spaces=$(ctr namespaces ls --quiet) || return 1; fi
  for node_space in $node_spaces; do
    ctr --namespace "$node_space" tasks ls --quiet || return 1
  done
}

# The kubelet removes the sandboxes of pods whose manifests are gone.
node_until=$(($(date +%s) + 120))
while node_left=$(node_tasks 2>/dev/null) || node_left=unknown && [ -n "$node_left" ]; do
  if [ "$(date +%s)" -ge "$node_until" ]; then
    echo "containers of others run: the kubelet and containerd stay" >&2
    exit 0
  fi
  sleep 0.5
done

cp -p "$node_record" "$node_record.new"
sed 's/"complete": true/"complete": false/' "$node_record" >"$node_record.new"
flush "$node_record.new"
mv -f "$node_record.new" "$node_record"
flush "${node_record%/*}"
systemctl disable --quiet --now kubelet.service 2>/dev/null || true
systemctl reset-failed kubelet.service 2>/dev/null || true
rm -f -- "$node_unit_file"
rm -rf -- "$node_unit_file.d"
flush "${node_unit_file%/*}"
if node_had config; then
  awk '$2 ~ "^/var/lib/kubelet/" { print $2 }' /proc/mounts | while read -r node_mount; do umount "$node_mount" || true; done
  node_empty "${node_config%/*}"
fi
if node_had containerd; then
  systemctl disable --quiet --now containerd.service 2>/dev/null || true
  rm -f -- "$node_containerd"
  node_empty /var/lib/containerd
  rm -rf -- /run/containerd
  rmdir -- /opt/containerd/bin /opt/containerd/lib /opt/containerd /etc/cni/net.d /etc/cni 2>/dev/null || true
fi
if [ -d "$node_programs" ]; then
  find "$node_programs" -type f \( -name kubelet -o -name kubelet.sha256 \) -delete
  find "$node_programs" -depth -type d -empty -delete
fi
rmdir -- "${node_programs%/*}" 2>/dev/null || true
remove_packages
rmdir -- "${node_containerd%/*}" "$node_manifests" "${node_manifests%/*}" 2>/dev/null || true
systemctl daemon-reload
rm -rf -- "${node_record%/*}"
flush_packages

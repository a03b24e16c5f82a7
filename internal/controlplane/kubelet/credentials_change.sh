# Lets the kubelet trust $authorities (base64), use the API server at $server, and present the certificate in
# $certificate, a file beside the present one. Where one of the latter two is "", it keeps what it has. Each file is
# replaced by one rename. A mark says that this has begun, until the kubelet runs with it. A kubelet that is stopped
# stays so.
config=/etc/kubernetes/kubelet.conf
current=/var/lib/kubelet/pki/kubelet-client-current.pem
: >/etc/kubernetes/kubelet.renewal
flush /etc/kubernetes/kubelet.renewal /etc/kubernetes
rm -f "$config.kube-new" "$current.kube-new"
cp -p "$config" "$config.kube-new"
edits="s|^\( *certificate-authority-data: \).*|\1$authorities|"
[ -z "$server" ] || edits="$edits; s|^\( *server: \).*|\1$server|"
sed "$edits" "$config" >"$config.kube-new"
flush "$config.kube-new"
mv -f "$config.kube-new" "$config"
flush /etc/kubernetes
if [ -n "$certificate" ]; then
  ln -s "$certificate" "$current.kube-new"
  mv -fT "$current.kube-new" "$current"
  flush "${current%/*}"
fi
systemctl try-restart kubelet.service

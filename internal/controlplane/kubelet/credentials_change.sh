# Lets the kubelet trust $authorities (base64) and present the certificate in $certificate, a file beside the present
# one, or "": it keeps that one. Each file is replaced by one rename. A mark says that this has begun, until the kubelet
# runs with it. A kubelet that is stopped stays so.
config=/etc/kubernetes/kubelet.conf
current=/var/lib/kubelet/pki/kubelet-client-current.pem
: >/etc/kubernetes/kubelet.renewal
flush /etc/kubernetes/kubelet.renewal /etc/kubernetes
rm -f "$config.kube-new" "$current.kube-new"
cp -p "$config" "$config.kube-new"
sed "s|^\( *certificate-authority-data: \).*|\1$authorities|" "$config" >"$config.kube-new"
flush "$config.kube-new"
mv -f "$config.kube-new" "$config"
flush /etc/kubernetes
if [ -n "$certificate" ]; then
  ln -s "$certificate" "$current.kube-new"
  mv -fT "$current.kube-new" "$current"
  flush "${current%/*}"
fi
systemctl try-restart kubelet.service

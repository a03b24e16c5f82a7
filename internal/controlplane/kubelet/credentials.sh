# Prints what the kubeconfig of the machine's kubelet trusts, and the certificate that the kubelet presents to API
# servers, without its key, and which API server it uses. A kubeconfig in another form than kubeadm's is not understood.
kubelet_config=/etc/kubernetes/kubelet.conf
kubelet_current=/var/lib/kubelet/pki/kubelet-client-current.pem
if [ -f "$kubelet_config" ] && [ ! -L "$kubelet_config" ] && [ -L "$kubelet_current" ] &&
  [ "$(grep -c '^ *certificate-authority-data: ' "$kubelet_config")" = 1 ] &&
  grep -Eq "^ *client-certificate: \"?$kubelet_current\"?\$" "$kubelet_config"; then
  kubelet_renewal=over
  [ ! -e /etc/kubernetes/kubelet.renewal ] || kubelet_renewal=begun
  printf 'credentials\t%s\t%s\t%s\n' "$kubelet_renewal" \
    "$(sed -n 's/^ *certificate-authority-data: //p' "$kubelet_config" | head -c 100000)" \
    "$(sed -n '/^-----BEGIN CERTIFICATE-----[[:space:]]*$/,/^-----END CERTIFICATE-----[[:space:]]*$/p' \
      "$kubelet_current" | head -c 70000 | base64 -w 0)"
  [ "$(grep -c '^ *server: ' "$kubelet_config")" != 1 ] ||
    printf 'credentials-server\t%s\n' "$(sed -n 's/^ *server: *//p' "$kubelet_config" | head -c 300 | base64 -w 0)"
fi

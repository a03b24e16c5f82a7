resource "kube_kubeconfig" "admin" {
  pki    = kube_pki_bundle.prod.bundle
  server = kube_control_plane_endpoint.prod.url
}

output "kubeconfig" {
  value     = kube_kubeconfig.admin.content
  sensitive = true
}

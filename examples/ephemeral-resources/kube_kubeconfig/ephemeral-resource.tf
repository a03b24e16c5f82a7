ephemeral "kube_kubeconfig" "admin" {
  pki    = kube_pki_bundle.prod.bundle
  server = kube_control_plane_endpoint.prod.url
}

provider "kubernetes" {
  host                   = kube_control_plane_endpoint.prod.url
  cluster_ca_certificate = ephemeral.kube_kubeconfig.admin.cluster_ca_certificate
  client_certificate     = ephemeral.kube_kubeconfig.admin.client_certificate
  client_key             = ephemeral.kube_kubeconfig.admin.client_key
}

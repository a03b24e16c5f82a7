resource "kube_control_plane_endpoint" "prod" {
  address        = "10.0.0.100"
  pki            = kube_pki_bundle.prod.bundle
  ca_certificate = kube_pki_bundle.prod.ca_certificate
  haproxy        = { hosts = local.hosts } # can be the machines of the replicas
}

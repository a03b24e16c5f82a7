resource "kube_etcd_client_certificate" "prometheus" {
  pki  = kube_pki_bundle.prod.bundle
  user = "prometheus"
}

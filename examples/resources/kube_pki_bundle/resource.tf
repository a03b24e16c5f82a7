resource "kube_pki_bundle" "prod" {
  cluster_name = "prod"
}

# terraform query -generate-config-out=imported.tf
list "kube_etcd_member" "prod" {
  provider = kube

  config {
    host = { address = "10.0.0.11" }
  }
}

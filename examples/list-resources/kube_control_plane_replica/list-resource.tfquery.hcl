# terraform query -generate-config-out=imported.tf
list "kube_control_plane_replica" "prod" {
  provider = kube

  config {
    host = { address = "10.0.0.11" }
  }
}

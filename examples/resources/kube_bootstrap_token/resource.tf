# For machines that join in the next four hours.
resource "kube_bootstrap_token" "batch" {
  pki      = kube_pki_bundle.prod.bundle
  endpoint = kube_control_plane_endpoint.prod.registration
  validity = "4h"

  depends_on = [kube_node_bootstrap.prod] # and so after the replicas, which store it
}

output "join" {
  value     = kube_bootstrap_token.batch.join_command
  sensitive = true
}

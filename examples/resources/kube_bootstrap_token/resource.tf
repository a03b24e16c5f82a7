# For machines that join in the next four hours.
resource "kube_bootstrap_token" "batch" {
  pki      = kube_pki_bundle.prod.bundle
  endpoint = kube_control_plane_endpoint.prod.registration
  validity = "4h"
}

output "join" {
  value     = kube_bootstrap_token.batch.join_command
  sensitive = true
}

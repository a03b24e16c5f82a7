output "url" {
  description = "URL of the API."
  value       = module.control_plane.url
}

output "kubeconfig" {
  description = "A kubeconfig for cluster administrators."
  value       = module.control_plane.kubeconfig
  sensitive   = true
}

output "backend" {
  description = "What the balancer needs: the targets and their health check."
  value       = module.control_plane.backend
}

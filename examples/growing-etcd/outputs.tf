output "url" {
  description = "URL of the API."
  value       = module.control_plane.url
}

output "kubeconfig" {
  description = "A kubeconfig for cluster administrators."
  value       = module.control_plane.kubeconfig
  sensitive   = true
}

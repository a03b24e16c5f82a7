output "url" {
  description = "The API's address."
  value       = module.control_plane.url
}

output "kubeconfig" {
  description = "A kubeconfig for cluster administrators."
  value       = module.control_plane.kubeconfig
  sensitive   = true
}

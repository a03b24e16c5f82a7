output "url" {
  description = "URL of the API."
  value       = module.control_plane.url
}

output "url6" {
  description = "URL of the API for clients with IPv6 only."
  value       = kube_kubeconfig.admin6.server
}

output "kubeconfig" {
  description = "A kubeconfig for cluster administrators."
  value       = module.control_plane.kubeconfig
  sensitive   = true
}

output "kubeconfig6" {
  description = "The same kubeconfig for clients with IPv6 only."
  value       = kube_kubeconfig.admin6.content
  sensitive   = true
}

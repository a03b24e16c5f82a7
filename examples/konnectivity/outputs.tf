output "url" {
  description = "URL of the API."
  value       = module.control_plane.url
}

output "kubeconfig" {
  description = "A kubeconfig for cluster administrators."
  value       = module.control_plane.kubeconfig
  sensitive   = true
}

output "agents" {
  description = "Manifest of the agents, for kubectl apply."
  value       = provider::kube::konnectivity_agent_manifest(var.endpoint_address, 8132, var.agent_image)
}

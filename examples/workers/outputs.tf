output "url" {
  description = "URL of the API."
  value       = module.control_plane.url
}

output "kubeconfig" {
  description = "A kubeconfig for cluster administrators."
  value       = module.control_plane.kubeconfig
  sensitive   = true
}

output "join" {
  description = "The command that makes a machine a worker, valid for an hour."
  value       = kube_bootstrap_token.join.join_command
  sensitive   = true
}

output "discovery_file" {
  description = "A file for kubeadm join --discovery-file, with the endpoint, the CA and the token."
  value       = kube_bootstrap_token.join.discovery_file
  sensitive   = true
}

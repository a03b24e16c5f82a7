output "url" {
  description = "URL of the API."
  value       = module.control_plane.url
}

output "kubeconfig" {
  description = "A kubeconfig for cluster administrators, for emergencies: an age file (terraform output -raw kubeconfig | age -d -i seal.txt)."
  value       = module.control_plane.kubeconfig
  sensitive   = true
}

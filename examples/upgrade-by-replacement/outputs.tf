output "url" {
  description = "URL of the API."
  value       = kube_control_plane_endpoint.this.url
}

output "kubeconfig" {
  description = "A kubeconfig for cluster administrators."
  value       = kube_kubeconfig.admin.content
  sensitive   = true
}

output "machines" {
  description = "The machine in each slot."
  value       = { for slot, member in kube_etcd_member.this : slot => member.name }
}

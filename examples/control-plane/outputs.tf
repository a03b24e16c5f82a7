output "url" {
  description = "URL of the API."
  value       = kube_control_plane_endpoint.this.url
}

output "kubeconfig" {
  description = "A kubeconfig for cluster administrators."
  value       = kube_kubeconfig.admin.content
  sensitive   = true
}

output "client_urls" {
  description = "Client URLs of the etcd members."
  value       = [for member in kube_etcd_member.this : member.client_url]
}

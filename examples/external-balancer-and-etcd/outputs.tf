output "url" {
  description = "URL of the API."
  value       = kube_control_plane_endpoint.this.url
}

output "kubeconfig" {
  description = "A kubeconfig for cluster administrators."
  value       = kube_kubeconfig.admin.content
  sensitive   = true
}

output "backend" {
  description = "What the balancer needs: the targets and their health check."
  value       = kube_control_plane_endpoint.this.backend
}

output "etcd_client_requests" {
  description = "Certificate requests of the API servers as clients of etcd, by machine, for the owners of etcd."
  value       = { for name, each in kube_certificate_requests.this : name => each.requests["apiserver-etcd-client"].request }
}

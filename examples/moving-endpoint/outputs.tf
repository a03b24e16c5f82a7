output "url" {
  description = "URL of the API at the first endpoint."
  value       = local.url
}

output "kubeconfig" {
  description = "A kubeconfig for cluster administrators."
  value       = kube_kubeconfig.admin.content
  sensitive   = true
}

output "backend" {
  description = "What the balancer needs: targets and health check. Null without it."
  value       = one(kube_control_plane_endpoint.balancer[*].backend)
}

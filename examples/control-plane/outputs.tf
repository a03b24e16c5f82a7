output "url" {
  description = "The API's address."
  value       = kube_control_plane_endpoint.this.url
}

output "kubeconfig" {
  description = "A kubeconfig for cluster administrators."
  value       = kube_kubeconfig.admin.content
  sensitive   = true
}

output "members" {
  description = "The etcd members as they were last seen."
  value = {
    for name, member in kube_etcd_member.this : name => {
      id      = member.id
      version = member.running_version
      leader  = member.leader
      healthy = member.healthy
      db_size = member.db_size_bytes
    }
  }
}

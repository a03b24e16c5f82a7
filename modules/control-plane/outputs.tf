output "url" {
  description = "The API's address. It is known when every replica is in rotation."
  value       = kube_control_plane_endpoint.this.url
  depends_on  = [kube_control_plane_replica.this]
}

output "ca_certificate" {
  description = "Certificates of the authorities that clients have to trust, PEM."
  value       = kube_pki_bundle.this.ca_certificate
}

output "kubeconfig" {
  description = "A kubeconfig for cluster administrators."
  value       = kube_kubeconfig.admin.content
  sensitive   = true
  depends_on  = [kube_control_plane_replica.this]
}

output "pki" {
  description = "The PKI bundle, private keys included: for further kube_kubeconfig resources and for data sources."
  value       = kube_pki_bundle.this.bundle
  sensitive   = true
}

output "endpoint" {
  description = "The endpoint's registration, for data sources."
  value       = kube_control_plane_endpoint.this.registration
}

output "etcd_client_urls" {
  description = "Where etcd's members are reached, for data sources."
  value       = [for member in kube_etcd_member.this : member.client_url]
}

output "members" {
  description = "What was last seen of each etcd member."
  value = { for name, member in kube_etcd_member.this : name => {
    version = member.running_version, healthy = member.healthy, leader = member.leader, alarms = member.alarms, drift = member.drift
  } }
}

output "replicas" {
  description = "What was last seen of each replica."
  value = { for name, replica in kube_control_plane_replica.this : name => {
    components = replica.components, registered = replica.registered, drift = replica.drift
  } }
}

output "balancers" {
  description = "What was last seen of the balancers: their health, and which of them holds the virtual IP."
  value       = { holder = kube_control_plane_endpoint.this.holder, health = kube_control_plane_endpoint.this.host_health, backends = kube_control_plane_endpoint.this.backends, drift = kube_control_plane_endpoint.this.drift }
}

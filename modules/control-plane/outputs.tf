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

# What changes by itself, such as who leads, is no output: plans would never be
# empty. The data source kube_control_plane tells it.
output "drift" {
  description = "What differs on the machines from what is configured, in words. Empty after an apply."
  value = flatten([
    kube_control_plane_endpoint.this.drift,
    values(kube_etcd_member.this)[*].drift,
    values(kube_control_plane_replica.this)[*].drift,
  ])
}

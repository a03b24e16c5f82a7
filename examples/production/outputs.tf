output "url" {
  description = "URL of the API."
  value       = module.control_plane.url
}

output "kubeconfig" {
  description = "A kubeconfig for cluster administrators, for emergencies: an age file (terraform output -raw kubeconfig | age -d -i seal.txt)."
  value       = module.control_plane.kubeconfig
  sensitive   = true
}

output "prometheus_kubeconfig" {
  description = "A kubeconfig that may read metrics and health, and no objects: an age file. The guide Monitoring describes the rest of Prometheus' configuration."
  value       = kube_kubeconfig.prometheus.content
  sensitive   = true
}

output "etcd_ca_certificate" {
  description = "etcd-ca.crt on Prometheus' machine."
  value       = kube_etcd_client_certificate.prometheus.ca_certificate
}

output "etcd_client_certificate" {
  description = "etcd-client.crt on Prometheus' machine."
  value       = kube_etcd_client_certificate.prometheus.client_certificate
}

output "etcd_client_key" {
  description = "etcd-client.key on Prometheus' machine: an age file."
  value       = kube_etcd_client_certificate.prometheus.client_key
  sensitive   = true
}

output "monitoring" {
  description = "What the functions alert_rules, dashboards and scrape_configs take."
  value       = module.control_plane.monitoring
}

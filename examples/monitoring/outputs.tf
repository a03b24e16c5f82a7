output "ca_certificate" {
  description = "ca.crt on Prometheus' machine."
  value       = kube_kubeconfig.prometheus.cluster_ca_certificate
}

output "client_certificate" {
  description = "client.crt on Prometheus' machine."
  value       = kube_kubeconfig.prometheus.client_certificate
}

output "client_key" {
  description = "client.key on Prometheus' machine."
  value       = kube_kubeconfig.prometheus.client_key
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
  description = "etcd-client.key on Prometheus' machine."
  value       = kube_etcd_client_certificate.prometheus.client_key
  sensitive   = true
}

output "scrape_configs" {
  description = "The scrape_configs of Prometheus' configuration, or a file of scrape_config_files."
  value       = provider::kube::scrape_configs(local.scraped).prometheus
}

output "alert_rules" {
  description = "A file of rule_files."
  value       = provider::kube::alert_rules(local.alerts).rules
}

output "dashboard_etcd" {
  description = "A dashboard of Grafana."
  value       = provider::kube::dashboards(module.control_plane.monitoring).etcd
}

output "dashboard_kubernetes" {
  description = "A dashboard of Grafana."
  value       = provider::kube::dashboards(module.control_plane.monitoring).kubernetes
}

output "dashboard_operations" {
  description = "A dashboard of Grafana."
  value       = provider::kube::dashboards(module.control_plane.monitoring).operations
}

locals {
  machines = { cp1 = "10.0.0.11", cp2 = "10.0.0.12", cp3 = "10.0.0.13" }
}

# A file of scrape_config_files in Prometheus' configuration.
output "scrape_configs" {
  value = provider::kube::scrape_configs({
    cluster   = "prod"
    members   = local.machines
    replicas  = local.machines
    ca_file   = "/etc/prometheus/kube/ca.crt"
    cert_file = "/etc/prometheus/kube/client.crt"
    key_file  = "/etc/prometheus/kube/client.key"
  }).prometheus
}

locals {
  machines = { cp1 = "10.0.0.11", cp2 = "10.0.0.12", cp3 = "10.0.0.13" }
}

# Files to import in Grafana, or of its provisioning.
output "dashboards" {
  value = provider::kube::dashboards({
    cluster  = "prod"
    members  = local.machines
    replicas = local.machines
  })
}

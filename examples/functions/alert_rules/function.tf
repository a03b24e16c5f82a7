locals {
  machines = { cp1 = "10.0.0.11", cp2 = "10.0.0.12", cp3 = "10.0.0.13" }
}

# A file of rule_files in Prometheus' configuration.
output "alert_rules" {
  value = provider::kube::alert_rules({
    cluster  = "prod"
    members  = local.machines
    replicas = local.machines
    labels   = { team = "platform" }
  }).rules
}

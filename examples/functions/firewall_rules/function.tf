locals {
  machines = { cp1 = "10.0.0.11", cp2 = "10.0.0.12", cp3 = "10.0.0.13" }

  firewall = provider::kube::firewall_rules({
    members    = local.machines
    replicas   = local.machines
    balancers  = local.machines
    operator   = ["10.0.9.5"]
    clients    = ["10.0.0.0/16"]
    nodes      = ["10.0.1.0/24"]
    monitoring = ["10.0.9.20"]
  })
}

# One file for each machine: nft -f /etc/nftables.d/kube.nft
output "nftables" {
  value = local.firewall.nftables
}

# What a security group of a cloud needs.
output "ingress" {
  value = [for rule in local.firewall.rules : rule if rule.direction == "ingress"]
}

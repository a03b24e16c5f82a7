# etcd on machines of its own: its disks are nobody else's, and replicas come and
# go without touching it. Every replica uses every member.

terraform {
  required_version = ">= 1.11"
  required_providers {
    kube = {
      source = "kubequorum/kube"
    }
  }
}

provider "kube" {
  ssh = {
    user        = var.ssh_user
    private_key = var.ssh_private_key
    known_hosts = var.ssh_known_hosts
  }
  artifacts = var.artifacts
}

module "control_plane" {
  source = "../../modules/control-plane"

  cluster_name = "prod"
  endpoint     = { address = var.endpoint_address }
  machines = merge(
    { for name, address in var.members : name => { address = address, roles = ["etcd"] } },
    { for name, address in var.replicas : name => { address = address, roles = ["replica", "balancer"] } },
  )
}

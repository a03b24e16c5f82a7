# Three machines, each with an etcd member, a replica and a balancer: the usual
# control plane. Any one of them may fail.

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
  machines     = { for name, address in var.machines : name => { address = address } }
}

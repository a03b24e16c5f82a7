# A control plane whose machines reach no Service, Pod or node. API servers reach them through
# agents in the cluster, which connect to the control plane (konnectivity).
#
# The program proxy-server must be on the machines. After the first apply, apply the output "agents"
# with kubectl.

terraform {
  required_version = ">= 1.11"
  required_providers {
    kube = {
      source  = "kubequorum/kube"
      version = "~> 0.1.0"
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
  # In a repository of your own: github.com/kubequorum/terraform-provider-kube//modules/control-plane?ref=v0.1.0
  source = "../../modules/control-plane"

  cluster_name = "prod"
  endpoint     = { address = var.endpoint_address }
  etcd         = { version = "3.6.16" }
  kubernetes = {
    version      = "1.36.3"
    konnectivity = { program = var.proxy_server }
  }
  pki      = { deletion_protection = false } # to try it out: keep it on for a cluster that matters
  machines = { for name, address in var.machines : name => { address = address } }
}

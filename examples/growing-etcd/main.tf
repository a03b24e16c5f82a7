# Three machines with a replica and a balancer, and one etcd member, for a cluster that may be down while its machine
# is. Add names to "members", two at a time, and etcd grows; remove them, and it shrinks. Every API server uses every
# member, and they change one after the other, so no client waits. Review the plan of a shrink (kube-review): members
# are removed for good, and afterwards etcd tolerates the loss of none.

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
  kubernetes   = { version = "1.36.3", members = "all" }
  pki          = { deletion_protection = false } # to try it out: keep it on for a cluster that matters
  machines = {
    for name, address in var.machines : name => {
      address = address
      roles   = concat(["replica", "balancer"], contains(var.members, name) ? ["etcd"] : [])
    }
  }
}

# The data source is not inside the check block, because Terraform always plans to
# read one there again in the apply, and no plan would be empty.
data "kube_control_plane" "this" {
  pki        = module.control_plane.pki
  etcd       = module.control_plane.etcd_client_urls
  endpoint   = module.control_plane.endpoint
  depends_on = [module.control_plane] # read it after the changes of this apply
}

# Every plan and apply warns about detected problems. The check blocks no change,
# repair or destruction.
check "control_plane" {
  assert {
    condition     = data.kube_control_plane.this.healthy
    error_message = join("\n", concat([data.kube_control_plane.this.summary], data.kube_control_plane.this.issues))
  }
}

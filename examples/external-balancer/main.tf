# A control plane behind a balancer that others look after, such as a cloud's. The
# output backend has what that balancer needs.

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
  endpoint = {
    address  = var.endpoint_address
    external = { health_check = var.health_check, hooks = var.hooks, probe_from = var.probe_from }
  }
  etcd       = { version = "3.6.16" }
  kubernetes = { version = "1.36.3" }
  pki        = { deletion_protection = false } # to try it out: keep it on for a cluster that matters
  machines   = { for name, address in var.machines : name => { address = address, roles = ["etcd", "replica"] } }
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

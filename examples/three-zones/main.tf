# A control plane in three zones, each with a network and a router of its own. The machines of a
# zone announce the address to the zone's router alone. Clients reach the replica of their own
# zone, and those of the other zones when it leaves.

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
    address = var.endpoint_address
    bgp = {
      asn = var.asn
      peers = [for zone, router in var.routers : {
        address = router.address
        asn     = router.asn
        bfd     = router.bfd
        targets = [for name, machine in var.machines : name if machine.zone == zone]
      } if contains(values(var.machines)[*].zone, zone)]
    }
  }
  etcd       = { version = "3.6.16" }
  kubernetes = { version = "1.36.3" }
  pki        = { deletion_protection = false } # to try it out: keep it on for a cluster that matters
  machines   = { for name, machine in var.machines : name => { address = machine.address, roles = ["etcd", "replica"] } }
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

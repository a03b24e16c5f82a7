# A control plane whose events are in an etcd cluster of their own: many events, as in large
# clusters, do not slow down the etcd cluster that holds everything else.

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

# An API server has one CA and one client certificate for etcd, so both clusters have the same
# CA. It is your own, because a generated key stays in its bundle.
locals {
  etcd_ca = { certificate = var.etcd_ca_certificate, private_key_wo_version = 1 }
  events  = join(";", [for member in kube_etcd_member.events : member.client_url])
}

module "control_plane" {
  # In a repository of your own: github.com/kubequorum/terraform-provider-kube//modules/control-plane?ref=v0.1.0
  source = "../../modules/control-plane"

  cluster_name = "prod"
  endpoint     = { address = var.endpoint_address }
  etcd         = { version = "3.6.16" }
  kubernetes = {
    version    = "1.36.3"
    extra_args = { apiserver = { "etcd-servers-overrides" = "/events#${local.events}" } }
  }
  pki = {
    deletion_protection = false # to try it out: keep it on for a cluster that matters
    etcd_ca             = local.etcd_ca
  }
  private_keys = { etcd = var.etcd_ca_key }
  machines     = { for name, address in var.machines : name => { address = address } }
}

resource "kube_pki_bundle" "events" {
  cluster_name        = "prod-events"
  deletion_protection = false
  etcd_ca = {
    certificate            = local.etcd_ca.certificate
    private_key_wo         = var.etcd_ca_key
    private_key_wo_version = local.etcd_ca.private_key_wo_version
  }
}

resource "kube_etcd_member" "events" {
  for_each = var.events_machines

  name    = each.key
  host    = { address = each.value }
  peers   = var.events_machines
  pki     = kube_pki_bundle.events.bundle
  version = "3.6.16"
}

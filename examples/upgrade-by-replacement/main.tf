# A control plane whose machines are replaced instead of changed: an upgrade adds
# new machines with the new versions, and only then removes the old ones.
#
# There are three slots. A machine of some generation fills each slot; change
# var.slots to select the generation. The balancers are separate machines, because
# connections through a balancer end when it leaves.

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

locals {
  # All existing machines, of every generation. A joining member asks the existing
  # ones, and a leaving member is removed through the remaining ones, so list old
  # machines until they are gone.
  machines = merge([
    for number, generation in var.generations : {
      for slot, address in generation.machines : "${slot}${number}" => address
    }
  ]...)

  # The machine in each slot. The name contains the generation: two members with the
  # same name cannot exist at the same time, and here the new one comes first.
  now = {
    for slot, number in var.slots : slot => {
      name       = "${slot}${number}"
      address    = var.generations[number].machines[slot]
      etcd       = var.generations[number].etcd
      kubernetes = var.generations[number].kubernetes
    }
  }
}

resource "kube_pki_bundle" "this" {
  cluster_name        = var.cluster_name
  deletion_protection = var.deletion_protection
}

resource "kube_control_plane_endpoint" "this" {
  address        = var.endpoint_address
  pki            = kube_pki_bundle.this.bundle
  ca_certificate = kube_pki_bundle.this.ca_certificate
  drain_timeout  = var.drain_timeout
  haproxy        = { hosts = var.balancers }
}

resource "kube_etcd_member" "this" {
  for_each = local.now

  name    = each.value.name
  host    = { address = each.value.address }
  peers   = local.machines
  pki     = kube_pki_bundle.this.bundle
  version = each.value.etcd

  lifecycle { create_before_destroy = true }
}

resource "kube_control_plane_replica" "this" {
  for_each = local.now

  name     = each.value.name
  host     = { address = each.value.address }
  endpoint = kube_control_plane_endpoint.this.registration
  etcd     = [kube_etcd_member.this[each.key].client_url]
  pki      = kube_pki_bundle.this.bundle
  version  = each.value.kubernetes

  lifecycle { create_before_destroy = true }
}

resource "kube_kubeconfig" "admin" {
  pki    = kube_pki_bundle.this.bundle
  server = kube_control_plane_endpoint.this.url
}

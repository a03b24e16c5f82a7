# A control plane that moves from a virtual IP to a balancer of the platform, or back. Both
# endpoints serve while it moves: replicas are registered at both, and have both addresses in
# their certificates.

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

resource "kube_pki_bundle" "this" {
  cluster_name        = "prod"
  deletion_protection = false # to try it out: keep it on for a cluster that matters
}

resource "kube_control_plane_endpoint" "virtual_ip" {
  count = contains(var.endpoints, "virtual_ip") ? 1 : 0

  address = var.endpoint_address
  pki     = kube_pki_bundle.this.bundle
  haproxy = { hosts = var.machines, hand_over = var.hand_over }

  # Replicas leave it before it is destroyed.
  lifecycle { create_before_destroy = true }
}

resource "kube_control_plane_endpoint" "balancer" {
  count = contains(var.endpoints, "balancer") ? 1 : 0

  address = var.balancer
  pki     = kube_pki_bundle.this.bundle
  external = {
    targets      = var.machines
    health_check = { interval = "500ms", threshold = 2 } # what the balancer is configured with
  }

  lifecycle { create_before_destroy = true }
}

locals {
  registrations = {
    virtual_ip = one(kube_control_plane_endpoint.virtual_ip[*].registration)
    balancer   = one(kube_control_plane_endpoint.balancer[*].registration)
  }
  urls = {
    virtual_ip = one(kube_control_plane_endpoint.virtual_ip[*].url)
    balancer   = one(kube_control_plane_endpoint.balancer[*].url)
  }
  endpoints = [for name in var.endpoints : local.registrations[name]]
  url       = local.urls[var.endpoints[0]]
}

resource "kube_etcd_member" "this" {
  for_each = var.machines

  name    = each.key
  host    = { address = each.value }
  peers   = var.machines
  pki     = kube_pki_bundle.this.bundle
  version = "3.6.16"
}

resource "kube_control_plane_replica" "this" {
  for_each = var.machines

  name                 = each.key
  host                 = { address = each.value }
  endpoint             = local.endpoints[0]
  additional_endpoints = length(local.endpoints) > 1 ? slice(local.endpoints, 1, length(local.endpoints)) : null
  etcd                 = [kube_etcd_member.this[each.key].client_url]
  pki                  = kube_pki_bundle.this.bundle
  version              = "1.36.3"
}

resource "kube_kubeconfig" "admin" {
  pki        = kube_pki_bundle.this.bundle
  server     = local.url
  depends_on = [kube_control_plane_replica.this]
}

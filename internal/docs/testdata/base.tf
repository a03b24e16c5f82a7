# The base of the configurations in documents: complete resources with the names
# that documents use, so that a document can show a part of one.

terraform {
  required_providers {
    kube = { source = "kubequorum/kube" }
  }
}

provider "kube" {}

locals {
  hosts = { cp1 = "10.0.0.11", cp2 = "10.0.0.12", cp3 = "10.0.0.13" }
}

resource "kube_pki_bundle" "prod" {
  cluster_name = "prod"
}

resource "kube_control_plane_endpoint" "prod" {
  address = "10.0.0.100"
  pki     = kube_pki_bundle.prod.bundle
  haproxy = { hosts = local.hosts }
}

resource "kube_etcd_member" "prod" {
  for_each = local.hosts
  name     = each.key
  host     = { address = each.value }
  peers    = local.hosts
  pki      = kube_pki_bundle.prod.bundle
  version  = "3.6.16"
}

resource "kube_control_plane_replica" "prod" {
  for_each = local.hosts
  name     = each.key
  host     = { address = each.value }
  endpoint = kube_control_plane_endpoint.prod.registration
  etcd     = [kube_etcd_member.prod[each.key].client_url]
  pki      = kube_pki_bundle.prod.bundle
  version  = "1.36.3"
}

resource "kube_node_bootstrap" "prod" {
  pki      = kube_pki_bundle.prod.bundle
  endpoint = kube_control_plane_endpoint.prod.registration
  version  = "1.36.3"
}

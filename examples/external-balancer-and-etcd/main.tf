# Replicas alone: etcd belongs to somebody else, who signs the certificates of its clients, and so does
# the balancer. No machine of this configuration has an etcd member or HAProxy.
#
# 1. terraform apply -target=kube_certificate_requests.this
# 2. Let the owners of etcd sign the output etcd_client_requests, and set etcd_client_certificates.
# 3. terraform apply, and give the output backend to the owners of the balancer.

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
  etcd_ca             = { certificate = var.etcd_ca_certificate, key_held_elsewhere = true }
}

resource "kube_control_plane_endpoint" "this" {
  address  = var.endpoint_address
  pki      = kube_pki_bundle.this.bundle
  external = { targets = var.machines, health_check = var.health_check }
}

resource "kube_certificate_requests" "this" {
  for_each = var.machines

  pki     = kube_pki_bundle.this.bundle
  replica = { name = each.key, address = each.value, endpoint = var.endpoint_address }
}

resource "kube_control_plane_replica" "this" {
  for_each = var.machines

  name     = each.key
  host     = { address = each.value }
  endpoint = kube_control_plane_endpoint.this.registration
  etcd     = var.etcd_urls
  pki      = kube_pki_bundle.this.bundle
  version  = "1.36.3"
  signed = {
    keys = kube_certificate_requests.this[each.key].keys
    certificates = {
      for name, certificate in var.etcd_client_certificates : "apiserver-etcd-client" => certificate if name == each.key
    }
  }
}

resource "kube_kubeconfig" "admin" {
  pki        = kube_pki_bundle.this.bundle
  server     = kube_control_plane_endpoint.this.url
  depends_on = [kube_control_plane_replica.this]
}

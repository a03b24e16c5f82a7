# Three etcd members alone: an apply restores or moves them, and does nothing else.

terraform {
  required_providers {
    kube = { source = "kubequorum/kube" }
  }
}

variable "machines" { type = map(string) }
variable "etcd_version" { type = string }
variable "ssh_private_key" { sensitive = true }
variable "ssh_known_hosts" {}
variable "artifacts" {}
variable "endpoint_address" {} # of the lab, not used
variable "restore" { default = null }
variable "maintenance" { default = null }
variable "volumes" { default = {} } # by the name of the member

provider "kube" {
  ssh = {
    private_key = var.ssh_private_key
    known_hosts = var.ssh_known_hosts
  }
  artifacts = var.artifacts
}

resource "kube_pki_bundle" "this" {
  cluster_name        = "bench"
  deletion_protection = false
}

resource "kube_etcd_member" "this" {
  for_each = var.machines

  name        = each.key
  host        = { address = each.value }
  peers       = var.machines
  pki         = kube_pki_bundle.this.bundle
  version     = var.etcd_version
  restore     = var.restore
  volume      = try(var.volumes[each.key], null)
  maintenance = var.maintenance

  data_dir = try("${var.volumes[each.key].mount_path}/etcd", "/var/lib/etcd")
}

# Members of etcd and nothing else: what the interruption sweep cuts off at
# every command.

terraform {
  required_providers {
    kube = {
      source = "kubequorum/kube"
    }
  }
}

provider "kube" {
  ssh = {
    private_key = var.ssh_private_key
    known_hosts = var.ssh_known_hosts
  }
  artifacts = var.artifacts
  seal      = { identities = [file(var.seal_identity_file)] }
}

resource "kube_pki_bundle" "this" {
  deletion_protection = false
  cluster_name        = "soak"
}

resource "kube_etcd_member" "this" {
  for_each = var.machines

  name       = each.key
  host       = { address = each.value }
  peers      = var.machines
  pki        = kube_pki_bundle.this.bundle
  version    = var.etcd_version
  extra_args = var.extra_args
  restore    = var.restore
  volume     = try(var.volumes[each.key], null)
  data_dir   = "${try(var.volumes[each.key].mount_path, "/var/lib")}/etcd"
}

variable "machines" {
  type = map(string)
}

variable "etcd_version" {
  type    = string
  default = "3.6.16"
}

variable "extra_args" {
  type    = map(string)
  default = {}
}

variable "restore" {
  type    = object({ id = string, snapshot = optional(string), member = optional(string) })
  default = null
}

variable "volumes" {
  description = "By member."
  type        = map(object({ device = string, mount_path = string }))
  default     = {}
}

variable "seal_identity_file" {
  type = string
}

variable "ssh_private_key" {
  type      = string
  sensitive = true
}

variable "ssh_known_hosts" {
  type = string
}

variable "artifacts" {
  type = object({ directory = string })
}

variable "endpoint_address" {
  description = "Every workspace is given one. Members of etcd have no use for it."
  type        = string
}

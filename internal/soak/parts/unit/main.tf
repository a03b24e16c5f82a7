# A part of a cluster: some of its members and some of its replicas. The keys
# under which they stand here are nobody's names.

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
}

resource "kube_etcd_member" "this" {
  for_each = var.members

  name       = each.value.name
  host       = { address = each.value.address }
  peers      = var.peers
  pki        = var.pki
  version    = var.etcd_version
  extra_args = var.etcd_extra_args
}

resource "kube_control_plane_replica" "this" {
  for_each   = var.replicas
  depends_on = [kube_etcd_member.this]

  name       = each.value.name
  host       = { address = each.value.address }
  endpoint   = var.registration
  etcd       = ["https://${each.value.address}:2379"]
  pki        = var.pki
  version    = var.kubernetes_version
  extra_args = { apiserver = var.apiserver_extra_args }
}

variable "members" {
  type    = map(object({ name = string, address = string }))
  default = {}
}

variable "replicas" {
  type    = map(object({ name = string, address = string }))
  default = {}
}

variable "peers" {
  type = map(string)
}

variable "pki" {
  type      = string
  sensitive = true
}

variable "registration" {
  type = object({
    address       = string
    port          = number
    hosts         = map(string)
    drain_timeout = string
    verify_ca     = bool
    cluster_id    = string
  })
  default = null
}

variable "etcd_version" {
  type    = string
  default = "3.6.16"
}

variable "kubernetes_version" {
  type    = string
  default = "1.36.3"
}

variable "etcd_extra_args" {
  type    = map(string)
  default = {}
}

variable "apiserver_extra_args" {
  type    = map(string)
  default = {}
}

variable "endpoint_address" {
  description = "Every workspace is given one. A part has its registration."
  type        = string
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

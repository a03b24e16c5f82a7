# What the parts of a cluster share: its bundle, and the endpoint where it has
# balancers.

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

resource "kube_pki_bundle" "this" {
  cluster_name = "soak"
  rotation     = var.rotation
}

resource "kube_control_plane_endpoint" "this" {
  count = length(var.balancers) > 0 ? 1 : 0

  address       = var.endpoint_address
  pki           = kube_pki_bundle.this.bundle
  drain_timeout = "5s"
  haproxy       = { hosts = var.balancers }
}

resource "kube_kubeconfig" "admin" {
  count = length(var.balancers) > 0 ? 1 : 0

  pki    = kube_pki_bundle.this.bundle
  server = kube_control_plane_endpoint.this[0].url
}

output "pki" {
  value     = kube_pki_bundle.this.bundle
  sensitive = true
}

output "registration" {
  value = one(kube_control_plane_endpoint.this[*].registration)
}

output "kubeconfig" {
  value     = one(kube_kubeconfig.admin[*].content)
  sensitive = true
}

variable "balancers" {
  type    = map(string)
  default = {}
}

variable "rotation" {
  type    = map(number)
  default = {}
}

variable "endpoint_address" {
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

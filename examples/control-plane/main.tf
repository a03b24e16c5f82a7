# A highly available control plane on plain machines: etcd, API servers and the
# virtual IP in front of them, all on the machines in var.machines.
# To scale, add or remove machines there. To upgrade, change a version.

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
  seal = var.seal_identity_file == null ? null : {
    identities = [file(var.seal_identity_file)]
    recipients = var.seal_recipients
  }
}

resource "kube_pki_bundle" "this" {
  cluster_name        = var.cluster_name
  deletion_protection = var.deletion_protection
  key_algorithm       = var.key_algorithm
  rotation            = var.rotation
  encryption          = var.encryption
}

resource "kube_control_plane_endpoint" "this" {
  address        = var.endpoint_address
  pki            = kube_pki_bundle.this.bundle
  ca_certificate = kube_pki_bundle.this.ca_certificate
  drain_timeout  = var.drain_timeout
  haproxy        = { hosts = var.machines }
}

resource "kube_etcd_member" "this" {
  for_each = var.machines

  name       = each.key
  host       = { address = each.value }
  peers      = var.machines
  pki        = kube_pki_bundle.this.bundle
  version    = var.etcd_version
  extra_args = var.etcd_extra_args
}

resource "kube_control_plane_replica" "this" {
  for_each = var.machines

  name          = each.key
  host          = { address = each.value }
  endpoint      = kube_control_plane_endpoint.this.registration
  etcd          = [kube_etcd_member.this[each.key].client_url]
  pki           = kube_pki_bundle.this.bundle
  version       = var.kubernetes_version
  service_cidrs = var.service_cidrs
  pod_cidrs     = var.pod_cidrs
  extra_args    = { apiserver = var.apiserver_extra_args }
}

resource "kube_kubeconfig" "admin" {
  pki    = kube_pki_bundle.this.bundle
  server = kube_control_plane_endpoint.this.url
}

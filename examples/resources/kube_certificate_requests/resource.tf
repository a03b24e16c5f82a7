# The keys of the CAs stay in Vault, with one PKI mount for each.
locals {
  mounts = { kubernetes = "pki-kubernetes", etcd = "pki-etcd", front-proxy = "pki-front-proxy" }

  # for_each needs names that are known before the first apply.
  names = toset([
    "etcd/server", "etcd/peer", "etcd/healthcheck-client",
    "apiserver", "apiserver-kubelet-client", "front-proxy-client", "apiserver-etcd-client",
    "kubernetes-admin", "system:kube-controller-manager", "system:kube-scheduler", "terraform-provider-kube",
  ])
}

resource "kube_pki_bundle" "prod" {
  cluster_name   = "prod"
  ca             = { certificate = file("kubernetes.pem"), key_held_elsewhere = true }
  etcd_ca        = { certificate = file("etcd.pem"), key_held_elsewhere = true }
  front_proxy_ca = { certificate = file("front-proxy.pem"), key_held_elsewhere = true }
}

resource "kube_certificate_requests" "cp1" {
  pki         = kube_pki_bundle.prod.bundle
  etcd_member = { name = "cp1", address = "10.0.0.11" }
  replica     = { name = "cp1", address = "10.0.0.11", endpoint = "10.0.0.100" }
}

# A role for each request: Vault takes organizations and usages from the role.
resource "vault_pki_secret_backend_role" "cp1" {
  for_each = local.names

  backend             = local.mounts[kube_certificate_requests.cp1.requests[each.key].authority]
  name                = "cp1-${replace(each.key, "/[^a-z-]/", "-")}"
  organization        = kube_certificate_requests.cp1.requests[each.key].organizations
  server_flag         = contains(kube_certificate_requests.cp1.requests[each.key].usages, "server auth")
  client_flag         = contains(kube_certificate_requests.cp1.requests[each.key].usages, "client auth")
  use_csr_common_name = true
  use_csr_sans        = true
  allow_any_name      = true
  enforce_hostnames   = false
  key_type            = "any"
  max_ttl             = "8760h"
}

resource "vault_pki_secret_backend_sign" "cp1" {
  for_each = local.names

  backend               = vault_pki_secret_backend_role.cp1[each.key].backend
  name                  = vault_pki_secret_backend_role.cp1[each.key].name
  csr                   = kube_certificate_requests.cp1.requests[each.key].request
  common_name           = kube_certificate_requests.cp1.requests[each.key].common_name
  exclude_cn_from_sans  = true # a certificate with more names than requested is refused
  ttl                   = "8760h"
  auto_renew            = true
  min_seconds_remaining = 10512000 # four months
}

locals {
  signed = {
    keys         = kube_certificate_requests.cp1.keys
    certificates = { for name, signed in vault_pki_secret_backend_sign.cp1 : name => signed.certificate }
  }
}

resource "kube_etcd_member" "cp1" {
  name    = "cp1"
  host    = { address = "10.0.0.11" }
  peers   = { cp1 = "10.0.0.11" }
  pki     = kube_pki_bundle.prod.bundle
  signed  = local.signed
  version = "3.6.16"
}

resource "kube_control_plane_replica" "cp1" {
  name     = "cp1"
  host     = { address = "10.0.0.11" }
  endpoint = kube_control_plane_endpoint.prod.registration
  etcd     = [kube_etcd_member.cp1.client_url]
  pki      = kube_pki_bundle.prod.bundle
  signed   = local.signed
  version  = "1.36.3"
}

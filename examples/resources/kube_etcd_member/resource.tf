locals {
  hosts = { cp1 = "10.0.0.11", cp2 = "10.0.0.12", cp3 = "10.0.0.13" }
}

resource "kube_etcd_member" "prod" {
  for_each = local.hosts

  name    = each.key
  host    = { address = each.value }
  peers   = local.hosts
  pki     = kube_pki_bundle.prod.bundle
  version = "3.6.16"
}

locals {
  admin = provider::kube::kubeconfig(sensitive(file("admin.conf")))
}

provider "kubernetes" {
  host                   = local.admin.server
  cluster_ca_certificate = local.admin.certificate_authority
  client_certificate     = local.admin.client_certificate
  client_key             = local.admin.client_key
}

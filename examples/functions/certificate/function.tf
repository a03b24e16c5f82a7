locals {
  authority = provider::kube::certificate(kube_pki_bundle.prod.ca_certificate)
}

# Warns when the CA of the cluster expires in less than a year.
check "authority" {
  assert {
    condition     = timecmp(plantimestamp(), timeadd(local.authority.not_after, "-8760h")) < 0
    error_message = "${local.authority.subject} expires on ${local.authority.not_after}."
  }
}

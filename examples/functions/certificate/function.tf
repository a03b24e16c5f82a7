locals {
  authority = provider::kube::certificate(kube_pki_bundle.prod.ca_certificate)
}

# Warns when the cluster's authority has less than a year left.
check "authority" {
  assert {
    condition     = timecmp(plantimestamp(), timeadd(local.authority.not_after, "-8760h")) < 0
    error_message = "${local.authority.subject} expires on ${local.authority.not_after}."
  }
}

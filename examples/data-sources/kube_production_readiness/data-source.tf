# It stands beside the check block: Terraform plans one within to be read again in
# the apply, so that no plan would be empty.
data "kube_production_readiness" "prod" {
  pki      = kube_pki_bundle.prod.bundle
  etcd     = [for member in kube_etcd_member.prod : member.client_url]
  endpoint = kube_control_plane_endpoint.prod.registration

  # After what this apply changes, not before.
  depends_on = [kube_control_plane_replica.prod]
}

# Plans and applies warn of every item that fails or is not known.
check "production_readiness" {
  assert {
    condition = data.kube_production_readiness.prod.ready
    error_message = join("\n", [
      for item in data.kube_production_readiness.prod.items :
      "${item.status}: ${item.title}: ${item.evidence}. Remedy: ${item.remedy}"
      if contains(["fail", "unknown"], item.status)
    ])
  }
}

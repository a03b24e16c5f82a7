# The data source is not inside the check block, because Terraform always plans to
# read one there again in the apply, and no plan would be empty.
data "kube_production_readiness" "prod" {
  pki      = kube_pki_bundle.prod.bundle
  etcd     = [for member in kube_etcd_member.prod : member.client_url]
  endpoint = kube_control_plane_endpoint.prod.registration

  # Prometheus is outside of this cluster: whether it has an alert does not show here.
  accepted = ["certificates"]

  # Read it after the changes of this apply.
  depends_on = [kube_control_plane_replica.prod]
}

# Every plan and apply warns about each item that neither passes nor is accepted.
check "production_readiness" {
  assert {
    condition = data.kube_production_readiness.prod.ready
    error_message = join("\n", [
      for item in data.kube_production_readiness.prod.items :
      "${item.status}: ${item.title}: ${item.evidence}. Remedy: ${item.remedy}"
      if item.status != "pass" && !item.accepted
    ])
  }
}

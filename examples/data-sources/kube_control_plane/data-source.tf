# The data source is not inside the check block, because Terraform always plans to
# read one there again in the apply, and no plan would be empty.
data "kube_control_plane" "prod" {
  pki      = kube_pki_bundle.prod.bundle
  etcd     = [for member in kube_etcd_member.prod : member.client_url]
  endpoint = kube_control_plane_endpoint.prod.registration

  # Read it after the changes of this apply.
  depends_on = [kube_control_plane_replica.prod]
}

# Every plan and apply warns about detected problems. The check blocks no change or
# repair.
check "control_plane" {
  assert {
    condition     = data.kube_control_plane.prod.healthy
    error_message = join("\n", concat([data.kube_control_plane.prod.summary], data.kube_control_plane.prod.issues))
  }
}

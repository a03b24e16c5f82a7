# It stands beside the check block: Terraform plans one within to be read again in
# the apply, so that no plan would be empty.
data "kube_control_plane" "prod" {
  pki      = kube_pki_bundle.prod.bundle
  etcd     = [for member in kube_etcd_member.prod : member.client_url]
  endpoint = kube_control_plane_endpoint.prod.registration

  # After what this apply changes, not before.
  depends_on = [kube_control_plane_replica.prod]
}

# Every plan and apply warns while something of the control plane is not as it
# should be, and says what. Nothing is kept from being mended by that.
check "control_plane" {
  assert {
    condition     = data.kube_control_plane.prod.healthy
    error_message = join("\n", concat([data.kube_control_plane.prod.summary], data.kube_control_plane.prod.issues))
  }
}

# With fail_on it can gate what must not begin on a control plane
# that is not whole: an upgrade of the workers, say.
data "kube_control_plane" "gate" {
  pki      = kube_pki_bundle.prod.bundle
  etcd     = [for member in kube_etcd_member.prod : member.client_url]
  endpoint = kube_control_plane_endpoint.prod.registration
  fail_on  = ["unreachable", "unhealthy"]
}

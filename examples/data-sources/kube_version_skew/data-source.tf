# May the control plane go to the versions that are wanted next? A check warns
# in every plan, and never fails one, not even while a machine is down.
check "next_upgrade" {
  data "kube_version_skew" "prod" {
    pki      = kube_pki_bundle.prod.bundle
    etcd     = [for member in kube_etcd_member.prod : member.client_url]
    endpoint = kube_control_plane_endpoint.prod.registration

    kubernetes_target = "1.35.4"
    etcd_target       = "3.6.16"
  }

  assert {
    condition     = data.kube_version_skew.prod.target_allowed
    error_message = join("\n", concat(data.kube_version_skew.prod.refusals, data.kube_version_skew.prod.issues))
  }
}

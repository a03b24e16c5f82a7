# To which versions can this control plane be upgraded? It answers even while
# machines are down.
data "kube_version_skew" "prod" {
  pki      = kube_pki_bundle.prod.bundle
  etcd     = [for member in kube_etcd_member.prod : member.client_url]
  endpoint = kube_control_plane_endpoint.prod.registration

  kubernetes_target = "1.36.3"
  etcd_target       = "3.6.16"
}

# Every plan warns if the next versions are not possible, and says why.
check "next_upgrade" {
  assert {
    condition     = data.kube_version_skew.prod.target_allowed
    error_message = join("\n", concat(data.kube_version_skew.prod.refusals, data.kube_version_skew.prod.issues))
  }
}

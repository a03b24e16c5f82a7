resource "kube_control_plane_replica" "prod" {
  for_each = local.hosts

  name     = each.key
  host     = { address = each.value }
  endpoint = kube_control_plane_endpoint.prod.registration
  etcd     = [kube_etcd_member.prod[each.key].client_url]
  pki      = kube_pki_bundle.prod.bundle
  version  = "1.34.4"
}

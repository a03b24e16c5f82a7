resource "kube_control_plane_endpoint" "this" {
  haproxy        = null
  ca_certificate = null
  external       = { targets = var.machines, hooks = var.hooks }
}

resource "kube_etcd_member" "this" {
  endpoint      = kube_control_plane_endpoint.this.registration
  runtime       = "static_pod"
  extra_args    = { snapshot-count = "10000", max-txn-ops = "200" }
  early_renewal = var.early_renewal
}

resource "kube_control_plane_replica" "this" {
  runtime       = "static_pod"
  extra_args    = { apiserver = merge({ event-ttl = "2h" }, var.apiserver_extra_args) }
  early_renewal = var.early_renewal
  extra_volumes = { apiserver = { extra = {
    host_path = "/srv/extra", mount_path = "/srv/mounted", read_only = true, path_type = "DirectoryOrCreate"
  } } }
}

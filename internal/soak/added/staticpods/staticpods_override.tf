resource "kube_etcd_member" "this" {
  runtime = lookup(var.runtimes, each.key, "systemd")
}

resource "kube_control_plane_replica" "this" {
  runtime = lookup(var.runtimes, each.key, "systemd")
}

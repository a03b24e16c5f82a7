resource "kube_etcd_member" "this" {
  restore = var.restore
}

# terraform apply -invoke=action.kube_etcd_defragment.all
action "kube_etcd_defragment" "all" {
  config {
    pki              = kube_pki_bundle.prod.bundle
    peers            = local.hosts
    min_free_percent = 40
  }
}

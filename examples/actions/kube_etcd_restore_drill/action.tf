action "kube_etcd_restore_drill" "now" {
  config {
    pki   = kube_pki_bundle.prod.bundle
    peers = local.hosts
  }
}

# terraform apply -invoke=action.kube_etcd_restore_drill.now

# terraform apply -invoke=action.kube_etcd_move_leader.cp2
action "kube_etcd_move_leader" "cp2" {
  config {
    pki   = kube_pki_bundle.prod.bundle
    peers = local.hosts
    to    = "cp2"
  }
}

# terraform apply -invoke=action.kube_control_plane_drain.cp1
action "kube_control_plane_drain" "cp1" {
  config {
    pki  = kube_pki_bundle.prod.bundle
    host = { address = local.hosts["cp1"] }
    hold = "15m"
  }
}

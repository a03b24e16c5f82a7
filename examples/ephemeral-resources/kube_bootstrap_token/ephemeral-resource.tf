# Exists only while an apply joins machines: timestamp() is not known in a plan.
ephemeral "kube_bootstrap_token" "join" {
  pki        = kube_pki_bundle.prod.bundle
  endpoint   = kube_control_plane_endpoint.prod.registration
  apply_time = timestamp()
}

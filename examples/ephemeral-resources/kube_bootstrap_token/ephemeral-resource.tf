# Exists only while an apply joins machines: timestamp() is not known in a plan.
ephemeral "kube_bootstrap_token" "join" {
  pki        = kube_pki_bundle.prod.bundle
  endpoint   = kube_control_plane_endpoint.prod.registration
  apply_time = timestamp()

  depends_on = [kube_node_bootstrap.prod] # and so after the replicas, which store it
}

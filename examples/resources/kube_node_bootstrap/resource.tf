resource "kube_node_bootstrap" "prod" {
  pki            = kube_pki_bundle.prod.bundle
  endpoint       = kube_control_plane_endpoint.prod.registration
  version        = "1.36.3"
  pod_cidrs      = ["10.244.0.0/16"]
  kubelet_config = yamlencode({ maxPods = 200, serverTLSBootstrap = true })

  depends_on = [kube_control_plane_replica.prod]
}

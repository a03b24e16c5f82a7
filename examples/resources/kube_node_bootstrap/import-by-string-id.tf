import {
  to = kube_node_bootstrap.prod
  id = "10.0.0.11"
}

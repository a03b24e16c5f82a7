import {
  to = kube_control_plane_replica.prod["cp1"]
  identity = {
    address = "10.0.0.11"
  }
}

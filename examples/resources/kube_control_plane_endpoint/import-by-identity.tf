import {
  to = kube_control_plane_endpoint.prod
  identity = {
    address = "10.0.0.100"
    host    = "10.0.0.11" # one of its machines
  }
}

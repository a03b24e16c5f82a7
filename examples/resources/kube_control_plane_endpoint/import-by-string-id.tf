# With "terraform plan -generate-config-out=generated.tf" nothing is to be written
# by hand. drain_timeout is read from the replicas in rotation; without any, and
# on machines that an earlier version set up, defaults stand for what only the
# configuration knew.
import {
  to = kube_control_plane_endpoint.prod
  id = "10.0.0.11"
}

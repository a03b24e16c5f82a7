# "terraform plan -generate-config-out=generated.tf" writes a complete configuration.
# drain_timeout is read from the replicas in rotation. Without replicas, and on
# machines that an earlier build set up, it has defaults for what the machines do not
# record.
#
# Machines do not store the hooks of external: yours show in the first plan as an update,
# whose apply changes nothing on the machines.
import {
  to = kube_control_plane_endpoint.prod
  id = "10.0.0.11"
}

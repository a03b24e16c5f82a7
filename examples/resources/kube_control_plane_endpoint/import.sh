# The ID is the address of one of its machines (haproxy.hosts), not the virtual IP.
# The import changes nothing on the machines.
terraform import kube_control_plane_endpoint.prod 10.0.0.11

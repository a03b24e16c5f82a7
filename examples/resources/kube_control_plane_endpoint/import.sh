# By the address of one of its machines (haproxy.hosts), not by the virtual IP.
# Nothing is touched.
terraform import kube_control_plane_endpoint.prod 10.0.0.11

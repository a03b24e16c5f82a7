# The ID is the address of a machine of the endpoint: one with HAProxy, or one with a replica.
# The import changes nothing on the machines.
terraform import kube_control_plane_endpoint.prod 10.0.0.11

# A machine whose replica is at several endpoints: the address of one of them follows.
terraform import kube_control_plane_endpoint.outside 10.0.0.11/api.prod.example.com

# Two kinds of endpoint with one address, while one takes over: the kind comes before it.
terraform import kube_control_plane_endpoint.prod 10.0.0.11/haproxy:10.0.0.100

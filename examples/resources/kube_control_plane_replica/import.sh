# By the address of its machine in the cluster; how it is reached stands in the
# provider's ssh settings. Nothing is touched.
terraform import 'kube_control_plane_replica.prod["cp1"]' 10.0.0.11

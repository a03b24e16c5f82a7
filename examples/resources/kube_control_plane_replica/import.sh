# The ID is the address of its machine in the cluster. The provider's ssh settings
# say how to reach it. The import changes nothing on the machine.
terraform import 'kube_control_plane_replica.prod["cp1"]' 10.0.0.11

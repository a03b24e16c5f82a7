# The ID is the address of a machine with a replica. The next plan compares the objects; those that
# kubeadm manages need adopt = true.
terraform import kube_node_bootstrap.prod 10.0.0.11

# From a backup of the attribute bundle (from a state or an output), sealed or not.
terraform import kube_pki_bundle.prod file:/safe/place/bundle

# From a replica's machine, or one that kubeadm set up. The import changes nothing
# there.
terraform import kube_pki_bundle.prod 10.0.0.11

# With an external etcd that kubeadm set up: the second machine has the key of its CA.
terraform import kube_pki_bundle.prod 10.0.0.11,10.0.0.21

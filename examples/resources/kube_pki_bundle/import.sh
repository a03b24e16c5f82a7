# From a backup of the attribute bundle (from a state or an output), sealed or not.
terraform import kube_pki_bundle.prod file:/safe/place/bundle

# From a replica's machine, or one that kubeadm set up. The import changes nothing
# there.
terraform import kube_pki_bundle.prod 10.0.0.11

# From a backup of the text of bundle (out of a state, or an output), sealed or not.
terraform import kube_pki_bundle.prod file:/safe/place/bundle

# From a replica's machine, or one of kubeadm's. Nothing is touched.
terraform import kube_pki_bundle.prod 10.0.0.11

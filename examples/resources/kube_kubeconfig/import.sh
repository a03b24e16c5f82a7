# The administrators' kubeconfig on a replica's machine (/etc/kubernetes/admin.conf).
terraform import kube_kubeconfig.admin 10.0.0.11

# A file on this computer that contains certificate and key.
terraform import kube_kubeconfig.admin file:admin.kubeconfig

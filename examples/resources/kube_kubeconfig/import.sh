# The administrators' kubeconfig of a replica's machine (/etc/kubernetes/admin.conf).
terraform import kube_kubeconfig.admin 10.0.0.11

# One of this computer's files, with certificate and key within.
terraform import kube_kubeconfig.admin file:admin.kubeconfig

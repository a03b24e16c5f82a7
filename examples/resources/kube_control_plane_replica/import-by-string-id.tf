# Everything is read from the machine: flags that are not defaults become extra_args,
# and additional names in the certificate become extra_sans. pki comes from the
# kube_pki_bundle to which the configuration refers: import that first, or in the same
# run.
#
# "terraform plan -generate-config-out=generated.tf" leaves out sensitive values, and
# says so. Add this line:
#   pki = kube_pki_bundle.prod.bundle
#
# Machines do not store timeouts, install_kubelet, signed, and the hooks of endpoint
# and additional_endpoints: your values show in the first plan as an update. Its apply
# registers the replica again if it has hooks, and restarts nothing.
#
# A text in maintenance counts as a new request: leave it out until after that apply.
import {
  for_each = local.hosts
  to       = kube_control_plane_replica.prod[each.key]
  id       = each.value
}

# Everything is read from the machine: flags that are not defaults are extra_args,
# and names in the certificate that every one has not are extra_sans. pki is taken
# from the kube_pki_bundle to which the configuration refers: import that too, or
# before.
#
# With "terraform plan -generate-config-out=generated.tf" one thing is to be
# written by hand, as Terraform writes nothing that is sensitive, and says so:
#   pki = kube_pki_bundle.prod.bundle
#
# timeouts are on no machine: what the configuration says of them shows in the
# first plan, and changes nothing there.
import {
  for_each = local.hosts
  to       = kube_control_plane_replica.prod[each.key]
  id       = each.value
}

# Everything is read from the machine: flags that are not defaults are extra_args,
# and peers are whom etcd lists. pki is taken from the kube_pki_bundle to which the
# configuration refers: import that too, or before.
#
# With "terraform plan -generate-config-out=generated.tf" one thing is to be
# written by hand, as Terraform writes nothing that is sensitive, and says so:
#   pki = kube_pki_bundle.prod.bundle
#
# on_destroy and timeouts are on no machine: what the configuration says of them
# shows in the first plan, and changes nothing there.
import {
  for_each = local.hosts
  to       = kube_etcd_member.prod[each.key]
  id       = each.value
}

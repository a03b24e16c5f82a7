# Everything is read from the machine: flags that are not defaults become extra_args,
# and peers are the members that etcd lists. pki comes from the kube_pki_bundle to
# which the configuration refers: import that first, or in the same run.
#
# "terraform plan -generate-config-out=generated.tf" leaves out sensitive values, and
# says so. Add this line:
#   pki = kube_pki_bundle.prod.bundle
#
# Machines do not store on_destroy, timeouts, endpoint, additional_endpoints,
# install_kubelet, signed and archived_data_dir: your values show in the first plan as
# an update, whose apply restarts nothing. A restore whose id is done restores nothing.
#
# A text in maintenance counts as a new request: leave it out until after that apply.
import {
  for_each = local.hosts
  to       = kube_etcd_member.prod[each.key]
  id       = each.value
}

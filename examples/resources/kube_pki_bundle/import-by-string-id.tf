# A replica's machine has the whole bundle except the private keys of the etcd and
# front-proxy CAs; a warning says so. Their certificates stay in use (members and
# replicas read them from their machines), but these CAs can renew or issue nothing
# until you rotate both, in three applies: rotation = { etcd = 1, front_proxy = 1 },
# then 2, then 3. A backup has everything. During a rotation, a bundle cannot be
# imported from a machine: use a backup. A machine that kubeadm set up has every key.
#
# "terraform plan -generate-config-out=generated.tf" writes a complete configuration.
# CAs of your own (ca, etcd_ca, …) are imported without these arguments: adding them
# updates only the state.
import {
  to = kube_pki_bundle.prod
  id = "10.0.0.11"
}

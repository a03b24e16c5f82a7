# A replica's machine holds all of the bundle but the private keys of the etcd and
# front-proxy authorities; a warning says so. What they have issued stays in use
# (members and replicas take it from their machines), but nothing can be renewed
# or added by them until a rotation of the two has been gone through, three
# applies: rotation = { etcd = 1, front_proxy = 1 }, then 2, then 3. A backup has
# everything. A machine in the middle of a rotation gives no bundle: there only a
# backup helps. One of kubeadm's has every key.
#
# With "terraform plan -generate-config-out=generated.tf" nothing is to be written
# by hand. Authorities that were brought along (ca, etcd_ca, …) are imported
# without these arguments: writing them is an update of state alone.
import {
  to = kube_pki_bundle.prod
  id = "10.0.0.11"
}

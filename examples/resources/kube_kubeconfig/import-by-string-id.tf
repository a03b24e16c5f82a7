# Import a kubeconfig only to keep one that is in use: otherwise a new one is issued.
# pki comes from the kube_pki_bundle to which the configuration refers. Add it to a
# generated configuration yourself.
import {
  to = kube_kubeconfig.admin
  id = "10.0.0.11"
}

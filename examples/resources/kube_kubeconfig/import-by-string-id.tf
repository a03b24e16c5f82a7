# Only needed to keep a kubeconfig that is in use: without an import a new one is
# issued. pki is taken from the kube_pki_bundle to which the configuration refers,
# and is what has to be written by hand into a generated configuration.
import {
  to = kube_kubeconfig.admin
  id = "10.0.0.11"
}

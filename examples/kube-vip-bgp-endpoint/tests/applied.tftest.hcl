# A control plane at an address that kube-vip announces by BGP.
# The variables of the example name the machines and how to reach them.

run "apply" {
  assert {
    condition     = can(yamldecode(output.kubeconfig).clusters) && output.url == "https://${var.endpoint_address}:6443"
    error_message = "The output must be a kubeconfig for the URL of the API."
  }
}

run "nothing_is_left_to_do" {
  command = plan

  assert {
    condition     = length(module.control_plane.drift) == 0
    error_message = "The plan after an apply must be empty: no machine differs from the configuration."
  }
}

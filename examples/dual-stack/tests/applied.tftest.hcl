# Three machines with two families.
# The variables of the example name the machines and how to reach them.

run "apply" {
  assert {
    condition     = output.url == "https://${var.endpoint_address}:6443" && output.url6 == "https://[${var.endpoint_address6}]:6443"
    error_message = "The outputs must be the URLs of the API, one of each family."
  }
  assert {
    condition     = alltrue([for text in [output.kubeconfig, output.kubeconfig6] : can(yamldecode(text).clusters)])
    error_message = "The outputs must be kubeconfigs."
  }
}

run "nothing_is_left_to_do" {
  command = plan

  assert {
    condition     = length(module.control_plane.drift) == 0
    error_message = "The plan after an apply must be empty: no machine differs from the configuration."
  }
}

# All of a control plane on one machine.
# The machines and the way to them are given as the example's variables.

run "apply" {
  assert {
    condition     = can(yamldecode(output.kubeconfig).clusters) && output.url == "https://${var.endpoint_address}:6443"
    error_message = "Administrators have a way in."
  }
}

run "nothing_is_left_to_do" {
  command = plan

  assert {
    condition     = length(module.control_plane.drift) == 0
    error_message = "The machines are what the configuration says: nothing differs, so nothing is planned."
  }
}

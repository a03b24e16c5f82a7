# All of a control plane on one machine.
# The machines and the way to them are given as the example's variables.

run "apply" {
  module {
    source = "../../examples/one-machine"
  }

  assert {
    condition     = length(module.control_plane.members) == 1 && alltrue([for member in module.control_plane.members : member.healthy])
    error_message = "Every member is healthy."
  }
  assert {
    condition     = length(module.control_plane.replicas) == 1 && alltrue([for replica in module.control_plane.replicas : replica.registered && alltrue(replica.components[*].healthy)])
    error_message = "Every replica is healthy and in rotation."
  }
  assert {
    condition     = module.control_plane.balancers.holder != "" && alltrue([for health in module.control_plane.balancers.health : health == "ok"])
    error_message = "The virtual IP is held, and every balancer is well."
  }
}

run "nothing_is_left_to_do" {
  command = plan
  module {
    source = "../../examples/one-machine"
  }

  assert {
    condition = flatten([
      module.control_plane.balancers.drift, values(module.control_plane.members)[*].drift, values(module.control_plane.replicas)[*].drift,
    ]) == []
    error_message = "The machines are what the configuration says: nothing differs, so nothing is planned."
  }
}

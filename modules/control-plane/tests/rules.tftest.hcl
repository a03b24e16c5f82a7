# What the module refuses, and what it makes of machines and roles: plans only,
# which reach no machine.

variables {
  cluster_name = "prod"
  endpoint     = { address = "10.0.0.100" }
  machines = {
    cp1 = { address = "10.0.0.11" }
    cp2 = { address = "10.0.0.12" }
    cp3 = { address = "10.0.0.13" }
  }
}

run "hardened" {
  command = plan

  variables {
    etcd = { resources = { memory_max = "8G" } }
    kubernetes = {
      audit          = { max_age_days = 90 }
      authentication = { anonymous_paths = ["/version"] }
      resources      = { apiserver = { memory_max = "4G" } }
    }
  }

  assert {
    condition = alltrue([for replica in kube_control_plane_replica.this :
    replica.audit.max_age_days == 90 && replica.authentication.anonymous_paths == toset(["/version"]) && replica.resources.apiserver.memory_max == "4G"])
    error_message = "Audit, authentication and limits are those of every replica."
  }
  assert {
    condition     = alltrue([for member in kube_etcd_member.this : member.resources.memory_max == "8G"])
    error_message = "Limits are those of every member."
  }
}

run "scheduled_snapshots" {
  command = plan

  variables {
    etcd = { snapshots = { upload = "cp \"$SNAPSHOT\" /mnt/backup/" } }
  }

  assert {
    condition = alltrue([for member in kube_etcd_member.this :
    member.snapshots.schedule == "hourly" && member.snapshots.kept == 24 && member.snapshots.upload == "cp \"$SNAPSHOT\" /mnt/backup/" && member.snapshots.environment_file == null])
    error_message = "Every member has the same snapshots, with the defaults of the provider."
  }
}

run "stacked" {
  command = plan

  assert {
    condition     = join(" ", keys(kube_control_plane_replica.this)) == "cp1 cp2 cp3" && join(" ", keys(kube_etcd_member.this)) == "cp1 cp2 cp3"
    error_message = "Without roles every machine has a member and a replica."
  }
  assert {
    condition     = alltrue([for name, replica in kube_control_plane_replica.this : replica.etcd == tolist(["https://${var.machines[name].address}:2379"])])
    error_message = "A replica beside a member uses that one."
  }
  assert {
    condition     = join(" ", keys(kube_control_plane_endpoint.this.haproxy.hosts)) == "cp1 cp2 cp3"
    error_message = "Without roles every machine balances."
  }
  assert {
    condition     = alltrue([for member in kube_etcd_member.this : member.snapshots == null])
    error_message = "Snapshots are saved on a schedule where they are asked for."
  }
}

run "one_machine" {
  command = plan
  variables {
    machines = { cp1 = { address = "10.0.0.11" } }
  }
  assert {
    condition     = length(kube_control_plane_replica.this) == 1 && length(kube_etcd_member.this) == 1
    error_message = "One machine is a whole control plane."
  }
}

run "external_etcd_and_own_balancers" {
  command = plan
  variables {
    machines = {
      etcd1 = { address = "10.0.0.21", roles = ["etcd"] }
      etcd2 = { address = "10.0.0.22", roles = ["etcd"] }
      etcd3 = { address = "10.0.0.23", roles = ["etcd"] }
      cp1   = { address = "10.0.0.11", roles = ["replica"] }
      cp2   = { address = "10.0.0.12", roles = ["replica"] }
      lb1   = { address = "10.0.0.31", roles = ["balancer"] }
    }
  }
  assert {
    condition     = join(" ", keys(kube_control_plane_replica.this)) == "cp1 cp2" && join(" ", keys(kube_etcd_member.this)) == "etcd1 etcd2 etcd3" && join(" ", keys(kube_control_plane_endpoint.this.haproxy.hosts)) == "lb1"
    error_message = "Each role is on the machines that have it."
  }
  assert {
    condition     = alltrue([for replica in kube_control_plane_replica.this : length(replica.etcd) == 3])
    error_message = "A replica without a member beside it uses all members."
  }
  assert {
    condition     = kube_etcd_member.this["etcd1"].peers == tomap({ etcd1 = "10.0.0.21", etcd2 = "10.0.0.22", etcd3 = "10.0.0.23" })
    error_message = "The members' peers are the members."
  }
}

run "every_member_for_every_replica" {
  command = plan
  variables {
    kubernetes = { members = "all" }
  }
  assert {
    condition     = alltrue([for replica in kube_control_plane_replica.this : length(replica.etcd) == 3])
    error_message = "With \"all\" a replica uses the others' members too."
  }
}

run "encrypted_by_a_plugin" {
  command = plan

  variables {
    pki = { encryption = { provider = "kms", kms = { name = "vault", endpoint = "unix:///run/kms.sock" } } }
  }

  assert {
    condition     = kube_pki_bundle.this.encryption.kms.name == "vault" && kube_pki_bundle.this.encryption.kms.endpoint == "unix:///run/kms.sock"
    error_message = "The plugin is the bundle's."
  }
}

run "refuses_members_that_are_neither" {
  command = plan
  variables {
    kubernetes = { members = "some" }
  }
  expect_failures = [var.kubernetes]
}

run "refuses_an_unknown_role" {
  command = plan
  variables {
    machines = { cp1 = { address = "10.0.0.11", roles = ["etcd", "replica", "balancer", "worker"] } }
  }
  expect_failures = [var.machines]
}

run "refuses_a_machine_without_a_role" {
  command = plan
  variables {
    machines = { cp1 = { address = "10.0.0.11" }, cp2 = { address = "10.0.0.12", roles = [] } }
  }
  expect_failures = [var.machines]
}

run "refuses_two_machines_of_one_address" {
  command = plan
  variables {
    machines = { cp1 = { address = "10.0.0.11" }, cp2 = { address = "10.0.0.11" } }
  }
  expect_failures = [var.machines]
}

run "refuses_to_do_without_etcd" {
  command = plan
  variables {
    machines = { cp1 = { address = "10.0.0.11", roles = ["replica", "balancer"] } }
  }
  expect_failures = [var.machines]
}

run "refuses_six_replicas" {
  command = plan
  variables {
    machines = { for i in range(6) : "cp${i}" => { address = "10.0.0.1${i}" } }
  }
  expect_failures = [var.machines]
}

run "refuses_a_machine_on_the_endpoint_s_address" {
  command = plan
  variables {
    endpoint = { address = "10.0.0.11" }
  }
  expect_failures = [var.endpoint]
}

run "refuses_a_range_that_is_none" {
  command = plan
  variables {
    network = { pod_cidrs = ["10.244.0.0"] }
  }
  expect_failures = [var.network]
}

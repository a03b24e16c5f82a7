# Input validation. Plans only: no machine is contacted.
# The variables of the example say how to reach the machines, and name the seal's identity.

variables {
  machines         = { cp1 = "10.0.0.11", cp2 = "10.0.0.12", cp3 = "10.0.0.13" }
  endpoint_address = "10.0.0.100"
  login            = { issuer = "https://login.example.com", audience = "kubernetes" }
  snapshot_upload  = "rclone copyto \"$SNAPSHOT\" \"backups:$CLUSTER/$SNAPSHOT_NAME\""
}

run "requires_three_machines" {
  command = plan
  variables {
    machines = { cp1 = "10.0.0.11", cp2 = "10.0.0.12" }
  }
  expect_failures = [var.machines]
}

run "requires_an_https_issuer" {
  command = plan
  variables {
    login = { issuer = "http://login.example.com", audience = "kubernetes" }
  }
  expect_failures = [var.login]
}

run "rejects_the_prefix_of_system_names" {
  command = plan
  variables {
    login = { issuer = "https://login.example.com", audience = "kubernetes", prefix = "system:" }
  }
  expect_failures = [var.login]
}

run "requires_an_upload_command" {
  command = plan
  variables {
    snapshot_upload = " "
  }
  expect_failures = [var.snapshot_upload]
}

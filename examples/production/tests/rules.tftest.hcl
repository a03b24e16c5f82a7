# What the example refuses: plans only, which reach no machine.
# The way to the machines and the seal's identity are given as the example's variables.

variables {
  machines         = { cp1 = "10.0.0.11", cp2 = "10.0.0.12", cp3 = "10.0.0.13" }
  endpoint_address = "10.0.0.100"
  login            = { issuer = "https://login.example.com", audience = "kubernetes" }
  snapshot_upload  = "rclone copyto \"$SNAPSHOT\" \"backups:$CLUSTER/$SNAPSHOT_NAME\""
}

run "refuses_a_plane_that_tolerates_nothing" {
  command = plan
  variables {
    machines = { cp1 = "10.0.0.11", cp2 = "10.0.0.12" }
  }
  expect_failures = [var.machines]
}

run "refuses_an_issuer_in_the_clear" {
  command = plan
  variables {
    login = { issuer = "http://login.example.com", audience = "kubernetes" }
  }
  expect_failures = [var.login]
}

run "refuses_names_that_the_cluster_has" {
  command = plan
  variables {
    login = { issuer = "https://login.example.com", audience = "kubernetes", prefix = "system:" }
  }
  expect_failures = [var.login]
}

run "refuses_snapshots_that_stay" {
  command = plan
  variables {
    snapshot_upload = " "
  }
  expect_failures = [var.snapshot_upload]
}

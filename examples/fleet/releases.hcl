# What runs together. A release is added here, chosen by an environment
# (environment.hcl), and taken out when no environment has it any more.
locals {
  releases = {
    "2026-10" = { etcd = "3.6.16", kubernetes = "1.33.13" }
    "2026-11" = { etcd = "3.6.16", kubernetes = "1.34.4" }
  }
}

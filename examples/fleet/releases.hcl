# Which versions run together. Add a release here, select it in an environment
# (environment.hcl), and remove it when no environment uses it.
locals {
  releases = {
    "2026-10" = { etcd = "3.6.16", kubernetes = "1.35.4" }
    "2026-11" = { etcd = "3.6.16", kubernetes = "1.36.3" }
  }
}

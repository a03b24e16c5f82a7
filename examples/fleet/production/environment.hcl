# Production gets a release after staging. To promote it, change this line.
locals {
  release = "2026-10"

  # To destroy a cluster, set it to false here and apply first.
  deletion_protection = true
}

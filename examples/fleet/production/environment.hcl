# Production gets what has run in staging: promoting it is this one line.
locals {
  release = "2026-10"

  # To destroy a cluster, set it to false here and apply first.
  deletion_protection = true
}

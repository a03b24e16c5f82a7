# Staging gets a release first.
locals {
  release = "2026-11"

  # Clusters of this environment come and go.
  deletion_protection = false
}

# Production gets a release after staging, first in the canary wave (wave: canary in
# inventory.yaml), then everywhere. Each step is a change of one line.
locals {
  release = "2026-10"

  # What the canary wave runs: equal to release, or one release ahead.
  canary_release = "2026-10"

  # To destroy a cluster, set it to false here and apply first.
  deletion_protection = true
}

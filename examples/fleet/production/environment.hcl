# Production gets what has run in staging: promoting it is this one line.
locals {
  release = "2026-10"
}

# Staging gets a release first.
locals {
  release = "2026-11"
}

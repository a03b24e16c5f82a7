# The common settings of all clusters. A cluster is a directory ENVIRONMENT/NAME; its
# own settings are in the inventory.yaml of the environment.

locals {
  fleet       = dirname(find_in_parent_folders("root.hcl"))
  environment = basename(dirname(get_terragrunt_dir()))
  name        = basename(get_terragrunt_dir())

  programs  = get_env("FLEET_PROGRAMS", "") # a directory with the programs; "" downloads the upstream releases
  ssh_key   = get_env("FLEET_SSH_KEY", "")  # a file; "" uses the SSH agent
  settings  = read_terragrunt_config("${local.fleet}/${local.environment}/environment.hcl").locals
  inventory = yamldecode(file("${local.fleet}/${local.environment}/inventory.yaml"))[local.name]

  # Clusters of the canary wave get a release first.
  canary  = try(local.inventory.wave, "") == "canary"
  release = read_terragrunt_config("${local.fleet}/releases.hcl").locals.releases[
    local.canary ? try(local.settings.canary_release, local.settings.release) : local.settings.release
  ]

  # "s3", or "local" to try the example without a bucket.
  backend = get_env("FLEET_BACKEND", "s3")

  # The file with the age identity that opens the private keys in the states, which are in them in the clear without it.
  # "" seals nothing, which only a try has as its default. Keep the file out of the repository.
  seal = get_env("FLEET_SEAL", local.backend == "local" ? "" : "${local.fleet}/seal.txt")
}

# In a repository of your own:
# "git::https://github.com/kubequorum/terraform-provider-kube.git//modules/control-plane?ref=v0.1.0"
terraform {
  source = "${local.fleet}/../../modules/control-plane"
}

inputs = {
  cluster_name = "${local.environment}-${local.name}"
  endpoint     = local.inventory.endpoint
  machines     = local.inventory.machines
  etcd         = { version = local.release.etcd }
  kubernetes   = { version = local.release.kubernetes }
  pki          = { deletion_protection = local.settings.deletion_protection }
}

# One state for each cluster, so that a broken or locked state affects only one
# cluster. Enable versioning of the bucket, and let only those write to it who apply.
remote_state {
  backend = local.backend
  config = {
    s3 = {
      bucket       = get_env("FLEET_BUCKET", "example-fleet-state")
      region       = get_env("FLEET_REGION", "eu-central-1")
      key          = "${local.environment}/${local.name}/terraform.tfstate"
      encrypt      = true
      use_lockfile = true
    }
    local = { path = "${get_terragrunt_dir()}/terraform.tfstate" }
  }[local.backend]
  generate = {
    path      = "backend.tf"
    if_exists = "overwrite_terragrunt"
  }
}

# The machines accept this SSH key, or one of the SSH agent. The host keys of the whole fleet are in one file,
# which is reviewed like everything else.
generate "provider" {
  path      = "provider.tf"
  if_exists = "overwrite_terragrunt"
  contents  = <<-EOT
    provider "kube" {
      ssh = {
        user        = "root"
        private_key = ${local.ssh_key == "" ? "null" : "file(${jsonencode(local.ssh_key)})"}
        known_hosts = file("${get_env("FLEET_KNOWN_HOSTS", "${local.fleet}/known_hosts")}")
      }
      seal      = ${local.seal == "" ? "null" : "{ identities = [file(${jsonencode(local.seal)})] }"}
      artifacts = ${local.programs == "" ? "null" : jsonencode({ directory = local.programs })}
    }
  EOT
}

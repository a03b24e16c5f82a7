# A control plane that passes every item of kube_production_readiness. What the
# provider cannot do by itself is in the guide "Production": the disks, the
# storage for snapshots, the issuer of logins.

terraform {
  required_version = ">= 1.11"
  required_providers {
    kube = {
      source  = "kubequorum/kube"
      version = "~> 0.1.0"
    }
  }
}

provider "kube" {
  ssh = {
    user        = var.ssh_user
    private_key = var.ssh_private_key
    known_hosts = var.ssh_known_hosts
  }
  artifacts = var.artifacts

  # Private keys in state and plan are age files.
  seal = {
    identities = [file(var.seal_identity_file)]
    recipients = var.seal_recipients
  }
}

module "control_plane" {
  # In a repository of your own: github.com/kubequorum/terraform-provider-kube//modules/control-plane?ref=v0.1.0
  source = "../../modules/control-plane"

  cluster_name = var.cluster_name
  endpoint     = { address = var.endpoint_address }
  machines     = { for name, address in var.machines : name => { address = address } }

  pki = {
    deletion_protection = var.deletion_protection
    encryption          = { provider = "secretbox" }
  }

  etcd = {
    version   = "3.6.16"
    data_dir  = "/var/lib/etcd" # where each machine has a disk of its own mounted
    resources = var.limits.etcd
    snapshots = {
      schedule         = "hourly"
      kept             = 24
      upload           = var.snapshot_upload
      environment_file = var.snapshot_environment_file
    }
  }

  kubernetes = {
    version = "1.34.4"
    audit   = { max_age_days = 90, max_backups = 50 } # 5.1 GB of /var/log at most
    authentication = {
      jwt = yamlencode([{
        issuer = {
          url                  = var.login.issuer
          audiences            = [var.login.audience]
          certificateAuthority = var.login.certificate_authority
        }
        claimMappings = {
          username = { claim = var.login.username_claim, prefix = var.login.prefix }
          groups   = { claim = var.login.groups_claim, prefix = var.login.prefix }
        }
      }])
    }
    resources = {
      apiserver          = var.limits.apiserver
      controller_manager = var.limits.controller_manager
      scheduler          = var.limits.scheduler
    }
  }
}

# Both are outside of the check blocks, because a plan would always have something
# to read with them inside. The state holds their answers, which no output does:
# plans would have changes whenever something changes by itself.
data "kube_control_plane" "this" {
  pki        = module.control_plane.pki
  etcd       = module.control_plane.etcd_client_urls
  endpoint   = module.control_plane.endpoint
  depends_on = [module.control_plane] # after what an apply changes, not before
}

data "kube_production_readiness" "this" {
  pki        = module.control_plane.pki
  etcd       = module.control_plane.etcd_client_urls
  endpoint   = module.control_plane.endpoint
  depends_on = [module.control_plane]
}

# Every plan and apply warns while something of the control plane is not as it
# should be, and says what.
check "control_plane" {
  assert {
    condition     = data.kube_control_plane.this.healthy
    error_message = join("\n", concat([data.kube_control_plane.this.summary], data.kube_control_plane.this.issues))
  }
}

# And of every item of the review that does not pass. After the first apply this
# is "snapshots", until the first one was sent.
check "production_readiness" {
  assert {
    condition = data.kube_production_readiness.this.score == data.kube_production_readiness.this.total
    error_message = join("\n", concat([data.kube_production_readiness.this.summary], [
      for item in data.kube_production_readiness.this.items :
      "${item.status}: ${item.id}: ${item.evidence}. Remedy: ${item.remedy}" if item.status != "pass"
    ]))
  }
}

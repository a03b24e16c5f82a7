# A control plane that is ready by kube_production_readiness. The guide "A production
# control plane" describes what you provide: disks, storage for snapshots, an issuer of
# logins, Prometheus.

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

  # Private keys in state and plans are age files.
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
    version  = "3.6.16"
    data_dir = "/var/lib/etcd" # each machine has a separate disk mounted here
    # etcd at port 2382, which serves metrics only: let Prometheus' machine reach that port, and not 2379
    metrics   = { address = "0.0.0.0" }
    resources = var.limits.etcd
    snapshots = {
      schedule         = "hourly"
      kept             = 24
      upload           = var.snapshot_upload
      environment_file = var.snapshot_environment_file
    }
  }

  kubernetes = {
    version = "1.36.3"
    metrics = { address = "0.0.0.0" }                 # of kube-controller-manager and kube-scheduler, for clients with the right to read them
    audit   = { max_age_days = 90, max_backups = 50 } # at most 5.1 GB of /var/log

    # API servers accept only kubelets with a certificate of the cluster: serverTLSBootstrap, and approved requests.
    verify_kubelets = true
    # Tokens of service accounts end when they say so. Every workload must reload its token, as client-go does.
    extra_args = { apiserver = { service-account-extend-token-expiration = "false" } }

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

# May read metrics and health, and no objects: the login of Prometheus.
resource "kube_kubeconfig" "prometheus" {
  pki    = module.control_plane.pki
  server = module.control_plane.url
  user   = "prometheus"
  groups = ["system:monitoring"]
}

# A client of etcd: with this key, whoever reaches port 2379 reads and writes everything.
resource "kube_etcd_client_certificate" "prometheus" {
  pki  = module.control_plane.pki
  user = "prometheus"
}

# The newest uploaded snapshot is fetched and restored, beside the members, so that the review knows that this works.
resource "kube_etcd_restore_drill" "this" {
  count = var.snapshot_fetch == null ? 0 : 1

  pki              = module.control_plane.pki
  peers            = var.machines
  fetch            = var.snapshot_fetch
  environment_file = var.snapshot_environment_file
  every            = "504h"
  depends_on       = [module.control_plane]
}

# Both are outside of the check blocks, because Terraform always plans to read a data
# source in a check block again. Their answers are in the state and not in outputs:
# a changed output is a change of the plan.
data "kube_control_plane" "this" {
  pki        = module.control_plane.pki
  etcd       = module.control_plane.etcd_client_urls
  endpoint   = module.control_plane.endpoint
  depends_on = [module.control_plane] # read it after the changes of an apply; leave it out if a pipeline repairs
}

data "kube_production_readiness" "this" {
  pki        = module.control_plane.pki
  etcd       = module.control_plane.etcd_client_urls
  endpoint   = module.control_plane.endpoint
  accepted   = var.accepted
  depends_on = [module.control_plane, kube_etcd_restore_drill.this]
}

# Every plan and apply warns about detected problems.
check "control_plane" {
  assert {
    condition     = data.kube_control_plane.this.healthy
    error_message = join("\n", concat([data.kube_control_plane.this.summary], data.kube_control_plane.this.issues))
  }
}

# And about every item of the review that neither passes nor is accepted. After the first
# apply these are "snapshots" until the first one is uploaded and a drill has restored it, "metrics" until Prometheus
# reads them, and "compaction" for ten minutes.
check "production_readiness" {
  assert {
    condition = data.kube_production_readiness.this.ready
    error_message = join("\n", concat([data.kube_production_readiness.this.summary], [
      for item in data.kube_production_readiness.this.items :
      "${item.status}: ${item.id}: ${item.evidence}. Remedy: ${item.remedy}" if item.status != "pass" && !item.accepted
    ]))
  }
}

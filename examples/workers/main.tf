# A control plane that stock kubeadm joins workers to. The add-ons (a network plugin, kube-proxy,
# CoreDNS) come from your provider of choice, with a kubeconfig that is never stored.

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
}

module "control_plane" {
  # In a repository of your own: github.com/kubequorum/terraform-provider-kube//modules/control-plane?ref=v0.1.0
  source = "../../modules/control-plane"

  cluster_name = "prod"
  endpoint     = { address = var.endpoint_address }
  etcd         = { version = "3.6.16" }
  kubernetes   = { version = "1.36.3" }
  network      = { pod_cidrs = ["10.244.0.0/16"] }
  pki          = { deletion_protection = false } # to try it out: keep it on for a cluster that matters
  machines     = { for name, address in var.machines : name => { address = address } }

  workers = { kubelet_config = var.kubelet_config }
}

# For machines that join after the apply. A change of var.batch makes a new token.
resource "kube_bootstrap_token" "join" {
  pki      = module.control_plane.pki
  endpoint = module.control_plane.endpoint
  triggers = { batch = var.batch }

  depends_on = [module.control_plane]
}

# A control plane with workers, and an add-on that the helm provider applies: CoreDNS. Its kubeconfig is ephemeral: it
# is in no state and in no plan. A network plugin and kube-proxy are applied in the same way.

terraform {
  required_version = ">= 1.11"
  required_providers {
    kube = {
      source  = "kubequorum/kube"
      version = "~> 0.1.0"
    }
    helm = {
      source  = "hashicorp/helm"
      version = ">= 1.3, < 3.0" # from 3.0 on, write "kubernetes = {" below
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

resource "kube_bootstrap_token" "join" {
  pki      = module.control_plane.pki
  endpoint = module.control_plane.endpoint

  depends_on = [module.control_plane]
}

ephemeral "kube_kubeconfig" "add_ons" {
  pki    = module.control_plane.pki
  server = module.control_plane.url
}

provider "helm" {
  kubernetes {
    host                   = module.control_plane.url
    cluster_ca_certificate = ephemeral.kube_kubeconfig.add_ons.cluster_ca_certificate
    client_certificate     = ephemeral.kube_kubeconfig.add_ons.client_certificate
    client_key             = ephemeral.kube_kubeconfig.add_ons.client_key
  }
}

resource "helm_release" "coredns" {
  name      = "coredns"
  namespace = "kube-system"
  chart     = "${path.module}/coredns"
  wait      = false # its Pods run when a worker has joined

  values = [yamlencode({
    image     = var.coredns_image
    clusterIP = "10.96.0.10" # what kubelets tell their Pods: the tenth address of the Services' range
    upstream  = var.dns_upstream
    api       = { host = var.endpoint_address, port = "6443" } # also before kube-proxy runs
  })]

  depends_on = [module.control_plane]
}

# Three machines with all roles, and what Prometheus and Grafana need for them:
# configuration, alerts, dashboards, and a certificate that may read metrics only.

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
  endpoint = {
    address = var.endpoint_address
    metrics = { address = "0.0.0.0", textfile_directory = var.textfile_directory } # of HAProxy
  }
  etcd = {
    version   = "3.6.16"
    snapshots = { schedule = "hourly" } # they stay on the machines: set upload for a cluster that matters
    # etcd at port 2382, which serves metrics only: let Prometheus' machine reach that port, and not 2379
    metrics = { address = "0.0.0.0", textfile_directory = var.textfile_directory }
  }
  kubernetes = {
    version = "1.36.3"
    # kube-controller-manager and kube-scheduler, for clients with the right to read their metrics
    metrics = { address = "0.0.0.0", textfile_directory = var.textfile_directory }
  }
  pki      = { deletion_protection = false } # to try it out: keep it on for a cluster that matters
  machines = { for name, address in var.machines : name => { address = address } }
}

# May read metrics and health, and no objects.
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

locals {
  # Alerts for machines that an apply adds or removes come and go with it.
  scraped = merge(module.control_plane.monitoring, {
    ca_file   = "${var.credentials_directory}/ca.crt"
    cert_file = "${var.credentials_directory}/client.crt"
    key_file  = "${var.credentials_directory}/client.key"

    etcd_ca_file   = "${var.credentials_directory}/etcd-ca.crt"
    etcd_cert_file = "${var.credentials_directory}/etcd-client.crt"
    etcd_key_file  = "${var.credentials_directory}/etcd-client.key"
  })
  alerts = merge(module.control_plane.monitoring, { wait_factor = var.wait_factor })
}

output "url" {
  description = "URL of the API. It is known when every replica is in rotation."
  value       = kube_control_plane_endpoint.this.url
  depends_on  = [kube_control_plane_replica.this]
}

output "ca_certificate" {
  description = "CA certificates that clients must trust, PEM."
  value       = kube_pki_bundle.this.ca_certificate
}

output "kubeconfig" {
  description = "A kubeconfig for cluster administrators; null if admin_kubeconfig is false. With seal, an age file."
  value       = one(kube_kubeconfig.admin[*].content)
  sensitive   = true
  depends_on  = [kube_control_plane_replica.this]
}

output "pki" {
  description = "The PKI bundle with its private keys, for kube_kubeconfig resources and data sources."
  value       = kube_pki_bundle.this.bundle
  sensitive   = true
}

output "endpoint" {
  description = "The endpoint's registration, for data sources."
  value       = kube_control_plane_endpoint.this.registration
}

output "backend" {
  description = "What the balancer of an external endpoint needs: targets and health check. Null with HAProxy."
  value       = kube_control_plane_endpoint.this.backend
}

output "etcd_client_urls" {
  description = "Client URLs of the etcd members, for data sources."
  value       = [for member in kube_etcd_member.this : member.client_url]
}

output "discovery_file" {
  description = "Endpoint and CA for kubeadm join --discovery-file, without a token; null without workers."
  value       = one(kube_node_bootstrap.this[*].discovery_file)
}

locals {
  # A limit that alert_rules takes, from 1 to 1000000. Flags may have others: 0 means none.
  limit = "^(?:[1-9][0-9]{0,5}|1000000)$"

  monitoring = {
    cluster                        = var.cluster_name
    members                        = local.with["etcd"]
    replicas                       = local.with["replica"]
    port                           = var.kubernetes.port
    balancers                      = local.balanced && try(var.endpoint.metrics.address, null) != null ? local.with["balancer"] : null
    address_holders                = local.balanced ? local.with["balancer"] : null
    balancer_metrics_port          = try(var.endpoint.metrics.port, null)
    etcd_metrics_port              = try(var.etcd.metrics.address, null) != null ? 2382 : null
    node_exporter_port             = local.facts ? 9100 : null
    max_requests_inflight          = try(tonumber(regex(local.limit, var.kubernetes.extra_args.apiserver["max-requests-inflight"])), null)
    max_mutating_requests_inflight = try(tonumber(regex(local.limit, var.kubernetes.extra_args.apiserver["max-mutating-requests-inflight"])), null)
    controllers                    = try(var.kubernetes.metrics.address, null) != null
    early_renewal                  = var.pki.early_renewal
    extensive_metrics              = try(var.etcd.extra_args["metrics"] == "extensive", false)
  }
}

output "monitoring" {
  description = "What the functions alert_rules and dashboards take. For scrape_configs, merge it with the files or the Secrets of the credentials; with etcd.metrics.address, also with those of a client of etcd. With metrics.textfile_directory of all resources, node_exporter is expected at port 9100."
  value       = local.monitoring
}

output "alert_rules" {
  description = "Alerts of Prometheus for this control plane: rules is a rule file, and prometheus_rule the object of the Prometheus operator. For other waits or labels, call the function alert_rules with monitoring."
  value       = provider::kube::alert_rules(local.monitoring)
}

output "dashboards" {
  description = "Dashboards of Grafana for this control plane, JSON: etcd, kubernetes and operations."
  value       = provider::kube::dashboards(local.monitoring)
}

# Values that change on their own, such as the leader, are not outputs: every plan
# would show a change. Read them from the data source kube_control_plane.
output "drift" {
  description = "Differences between the machines and the configuration. Empty after an apply."
  value = flatten([
    kube_control_plane_endpoint.this.drift,
    values(kube_etcd_member.this)[*].drift,
    values(kube_control_plane_replica.this)[*].drift,
    kube_node_bootstrap.this[*].drift,
  ])
}

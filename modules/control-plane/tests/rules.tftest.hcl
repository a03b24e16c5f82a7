# Input validation, and what the module plans for machines and roles. Plans only:
# no machine is contacted.

variables {
  cluster_name = "prod"
  endpoint     = { address = "10.0.0.100" }
  machines = {
    cp1 = { address = "10.0.0.11" }
    cp2 = { address = "10.0.0.12" }
    cp3 = { address = "10.0.0.13" }
  }
  etcd       = { version = "3.6.16" }
  kubernetes = { version = "1.36.3" }
}

run "hardened" {
  command = plan

  variables {
    etcd = { version = "3.6.16", resources = { memory_max = "8G" }, timeouts = { create = "2h" } }
    kubernetes = {
      version        = "1.36.3"
      timeouts       = { update = "40m" }
      audit          = { max_age_days = 90 }
      authentication = { anonymous_paths = ["/version"] }
      resources      = { apiserver = { memory_max = "4G" } }
    }
  }

  assert {
    condition = alltrue([for replica in kube_control_plane_replica.this :
    replica.audit.max_age_days == 90 && replica.authentication.anonymous_paths == toset(["/version"]) && replica.resources.apiserver.memory_max == "4G"])
    error_message = "Every replica has the audit, authentication and resources settings."
  }
  assert {
    condition     = alltrue([for member in kube_etcd_member.this : member.resources.memory_max == "8G"])
    error_message = "Every member has the resources setting."
  }
  assert {
    condition = alltrue(concat(
      [for member in kube_etcd_member.this : member.timeouts.create == "2h"],
      [for replica in kube_control_plane_replica.this : replica.timeouts.update == "40m"],
    ))
    error_message = "Every member and replica has its timeouts."
  }
}

run "reserved" {
  command = plan

  variables {
    machines = {
      cp1 = { address = "10.0.0.11" }
      cp2 = { address = "10.0.0.12", roles = ["replica", "balancer"] }
      cp3 = { address = "10.0.0.13", roles = ["etcd"] }
      cp4 = { address = "10.0.0.14", roles = ["etcd"] }
    }
    etcd       = { version = "3.6.16", resources = { memory_max = "8G", cpu_weight = 2000 } }
    kubernetes = { version = "1.36.3", resources = { scheduler = { memory_max = "1G", memory_min = "64M" } } }
  }

  assert {
    condition = (kube_etcd_member.this["cp1"].resources.memory_min == "10%" && kube_etcd_member.this["cp1"].resources.cpu_weight == 2000 &&
    kube_etcd_member.this["cp1"].resources.memory_max == "8G" && kube_etcd_member.this["cp1"].resources.io_weight == 1000)
    error_message = "A machine with etcd and a replica reserves for etcd, and settings win."
  }
  assert {
    condition = (kube_control_plane_replica.this["cp1"].resources.apiserver.memory_min == "20%" &&
    kube_control_plane_replica.this["cp1"].resources.scheduler.memory_min == "64M" && kube_control_plane_replica.this["cp1"].resources.scheduler.cpu_weight == 200)
    error_message = "A machine with etcd and a replica reserves for the components, and settings win."
  }
  assert {
    condition = (kube_etcd_member.this["cp3"].resources.memory_min == null && kube_etcd_member.this["cp3"].resources.cpu_weight == 2000 &&
    kube_control_plane_replica.this["cp2"].resources.apiserver == null && kube_control_plane_replica.this["cp2"].resources.scheduler.memory_min == "64M")
    error_message = "Machines with one of the two have what was set."
  }
}

run "nothing_reserved" {
  command = plan

  variables {
    reservations = false
  }

  assert {
    condition     = alltrue(concat([for r in kube_control_plane_replica.this : r.resources == null], [for m in kube_etcd_member.this : m.resources == null]))
    error_message = "Without reservations, nothing is set."
  }
}

run "static_pods" {
  command = plan

  variables {
    etcd       = { version = "3.6.16", runtime = "static_pod" }
    kubernetes = { version = "1.36.3", runtime = "static_pod" }
  }

  assert {
    condition = alltrue(concat(
      [for m in kube_etcd_member.this : m.runtime == "static_pod" && m.resources == null],
      [for r in kube_control_plane_replica.this : r.runtime == "static_pod" && r.resources == null],
    ))
    error_message = "Nothing is reserved for static pods, which the kubelet probes."
  }
}

run "members_as_static_pods" {
  command = plan

  variables {
    etcd = { version = "3.6.16", runtime = "static_pod" }
  }

  assert {
    condition = (alltrue([for m in kube_etcd_member.this : m.resources == null]) &&
    alltrue([for r in kube_control_plane_replica.this : r.resources.apiserver.memory_min == "20%"]))
    error_message = "What is reserved for a unit does not depend on the other runtime."
  }
}

run "monitoring" {
  command = plan

  variables {
    etcd       = { version = "3.6.16", extra_args = { metrics = "extensive" } }
    kubernetes = { version = "1.36.3", extra_args = { apiserver = { max-requests-inflight = "800" } } }
  }

  assert {
    condition = (output.monitoring.max_requests_inflight == 800 && output.monitoring.max_mutating_requests_inflight == null &&
    output.monitoring.extensive_metrics)
    error_message = "The limits of requests and the metrics of etcd are those of the flags."
  }
  assert {
    condition     = strcontains(provider::kube::alert_rules(output.monitoring).rules, "> 640")
    error_message = "The functions take the output, and alerts have the limits of the flags."
  }
}

run "facts" {
  command = plan

  variables {
    endpoint   = { address = "10.0.0.10", metrics = { address = "0.0.0.0", port = 9105, textfile_directory = "/srv/facts" } }
    etcd       = { version = "3.6.16", metrics = { textfile_directory = "/srv/facts" } }
    kubernetes = { version = "1.36.3", metrics = { textfile_directory = "/srv/facts" } }
  }

  assert {
    condition     = output.monitoring.node_exporter_port == 9100 && output.monitoring.balancer_metrics_port == 9105
    error_message = "The functions know the ports of HAProxy's metrics and of node_exporter."
  }
  assert {
    condition     = strcontains(provider::kube::alert_rules(output.monitoring).rules, "KubeVirtualIPOnTwoMachines")
    error_message = "There are alerts on facts."
  }
}

run "early_renewal" {
  command = plan

  variables {
    endpoint   = { address = "10.0.0.10", metrics = { textfile_directory = "/srv/facts" } }
    etcd       = { version = "3.6.16", metrics = { textfile_directory = "/srv/facts" } }
    kubernetes = { version = "1.36.3", metrics = { textfile_directory = "/srv/facts" } }
    pki        = { early_renewal = "12h" }
  }

  assert {
    condition     = strcontains(provider::kube::alert_rules(output.monitoring).rules, "- time() < 21600")
    error_message = "An alert about certificates that end fires when an apply would have renewed them."
  }
}

run "requests_without_a_limit" {
  command = plan

  variables {
    kubernetes = {
      version    = "1.36.3"
      extra_args = { apiserver = { max-requests-inflight = "0", max-mutating-requests-inflight = "1000001" } }
    }
  }

  assert {
    condition     = output.monitoring.max_requests_inflight == null && output.monitoring.max_mutating_requests_inflight == null
    error_message = "Alerts have the default limits if those of the flags are none."
  }
}

run "facts_without_metrics_of_haproxy" {
  command = plan

  variables {
    endpoint   = { address = "10.0.0.10", metrics = { textfile_directory = "/srv/facts" } }
    etcd       = { version = "3.6.16", metrics = { textfile_directory = "/srv/facts" } }
    kubernetes = { version = "1.36.3", metrics = { textfile_directory = "/srv/facts" } }
    machines = {
      cp1 = { address = "10.0.0.11", roles = ["etcd", "replica"] }
      cp2 = { address = "10.0.0.12", roles = ["etcd", "replica"] }
      cp3 = { address = "10.0.0.13", roles = ["etcd", "replica"] }
      lb1 = { address = "10.0.0.21", roles = ["balancer"] }
      lb2 = { address = "10.0.0.22", roles = ["balancer"] }
    }
  }

  assert {
    condition     = output.monitoring.balancers == null && join(",", keys(output.monitoring.address_holders)) == "lb1,lb2"
    error_message = "The machines that can have the virtual IP are known without the metrics of HAProxy."
  }
  assert {
    condition     = strcontains(provider::kube::alert_rules(output.monitoring).rules, "machine=\"lb2\",resource=\"kube_control_plane_endpoint\"")
    error_message = "The facts of the balancers are missed."
  }
}

run "konnectivity" {
  command = plan

  variables {
    kubernetes = { version = "1.36.3", konnectivity = { agent_port = 9132 } }
  }

  assert {
    condition     = alltrue([for replica in kube_control_plane_replica.this : replica.konnectivity.agent_port == 9132])
    error_message = "Every replica has the proxy server."
  }
  assert {
    condition     = kube_control_plane_endpoint.this.haproxy.konnectivity.port == 9132 && join(",", keys(kube_control_plane_endpoint.this.haproxy.konnectivity.targets)) == "cp1,cp2,cp3"
    error_message = "The balancers pass the port of agents on to the replicas."
  }
}

run "files" {
  command = plan

  variables {
    secret_files = { "webhook.conf" = "a kubeconfig" }
    kubernetes = {
      version = "1.36.3"
      extra_args = { apiserver = {
        admission-control-config-file            = "/etc/kubernetes/files/admission.yaml"
        authentication-token-webhook-config-file = "/etc/kubernetes/files/webhook.conf"
      } }
      files = {
        "admission.yaml" = { content = "a configuration", mode = "0644" }
        "webhook.conf"   = {}
      }
    }
  }

  assert {
    condition = alltrue([for replica in kube_control_plane_replica.this :
    replica.files["admission.yaml"].content == "a configuration" && replica.files["admission.yaml"].mode == "0644" && replica.file_digests["webhook.conf"] == sha256("a kubeconfig")])
    error_message = "Every replica has the files, and the secret one's digest."
  }
}

run "scheduled_snapshots" {
  command = plan

  variables {
    etcd = { version = "3.6.16", snapshots = { upload = "cp \"$SNAPSHOT\" /mnt/backup/" } }
  }

  assert {
    condition = alltrue([for member in kube_etcd_member.this :
    member.snapshots.schedule == "hourly" && member.snapshots.kept == 24 && member.snapshots.upload == "cp \"$SNAPSHOT\" /mnt/backup/" && member.snapshots.environment_file == null])
    error_message = "Every member has the same snapshots, with the provider's defaults."
  }
}

run "snapshots_in_a_bucket" {
  command = plan

  variables {
    etcd = { version = "3.6.16", snapshots = { s3 = { endpoint = "https://s3.example.com", bucket = "backups", credentials_file = "/etc/s3" } } }
  }

  assert {
    condition = alltrue([for member in kube_etcd_member.this :
    member.snapshots.s3.bucket == "backups" && member.snapshots.s3.kept == 168 && member.snapshots.s3.recipients == null && member.snapshots.upload == null])
    error_message = "Every member uploads to the same bucket, with the provider's defaults."
  }
}

run "stacked" {
  command = plan

  assert {
    condition     = join(" ", keys(kube_control_plane_replica.this)) == "cp1 cp2 cp3" && join(" ", keys(kube_etcd_member.this)) == "cp1 cp2 cp3"
    error_message = "A machine without roles has a member and a replica."
  }
  assert {
    condition     = alltrue([for name, replica in kube_control_plane_replica.this : replica.etcd == toset(["https://${var.machines[name].address}:2379"])])
    error_message = "A replica on a machine with a member uses that member."
  }
  assert {
    condition     = join(" ", keys(kube_control_plane_endpoint.this.haproxy.hosts)) == "cp1 cp2 cp3"
    error_message = "A machine without roles is a balancer."
  }
  assert {
    condition     = alltrue([for member in kube_etcd_member.this : member.snapshots == null])
    error_message = "By default there are no scheduled snapshots."
  }
}

run "one_machine" {
  command = plan
  variables {
    machines = { cp1 = { address = "10.0.0.11" } }
  }
  assert {
    condition     = length(kube_control_plane_replica.this) == 1 && length(kube_etcd_member.this) == 1
    error_message = "One machine is a complete control plane."
  }
}

run "external_etcd_and_own_balancers" {
  command = plan
  variables {
    machines = {
      etcd1 = { address = "10.0.0.21", roles = ["etcd"] }
      etcd2 = { address = "10.0.0.22", roles = ["etcd"] }
      etcd3 = { address = "10.0.0.23", roles = ["etcd"] }
      cp1   = { address = "10.0.0.11", roles = ["replica"] }
      cp2   = { address = "10.0.0.12", roles = ["replica"] }
      lb1   = { address = "10.0.0.31", roles = ["balancer"] }
    }
  }
  assert {
    condition     = join(" ", keys(kube_control_plane_replica.this)) == "cp1 cp2" && join(" ", keys(kube_etcd_member.this)) == "etcd1 etcd2 etcd3" && join(" ", keys(kube_control_plane_endpoint.this.haproxy.hosts)) == "lb1"
    error_message = "Each role is on the machines that name it."
  }
  assert {
    condition     = alltrue([for replica in kube_control_plane_replica.this : length(replica.etcd) == 3])
    error_message = "A replica on a machine without a member uses all members."
  }
  assert {
    condition     = kube_etcd_member.this["etcd1"].peers == tomap({ etcd1 = "10.0.0.21", etcd2 = "10.0.0.22", etcd3 = "10.0.0.23" })
    error_message = "The peers of a member are all members."
  }
}

run "all_members_for_every_replica" {
  command = plan
  variables {
    kubernetes = { version = "1.36.3", members = "all" }
  }
  assert {
    condition     = alltrue([for replica in kube_control_plane_replica.this : length(replica.etcd) == 3])
    error_message = "With \"all\" every replica uses all members."
  }
}

run "encryption_by_kms" {
  command = plan

  variables {
    pki = { encryption = { provider = "kms", kms = { name = "vault", endpoint = "unix:///run/kms.sock" } } }
  }

  assert {
    condition     = kube_pki_bundle.this.encryption.kms.name == "vault" && kube_pki_bundle.this.encryption.kms.endpoint == "unix:///run/kms.sock"
    error_message = "The bundle has the settings of the KMS plugin."
  }
}

run "rejects_unknown_members" {
  command = plan
  variables {
    kubernetes = { version = "1.36.3", members = "some" }
  }
  expect_failures = [var.kubernetes]
}

run "rejects_an_unknown_role" {
  command = plan
  variables {
    machines = { cp1 = { address = "10.0.0.11", roles = ["etcd", "replica", "balancer", "worker"] } }
  }
  expect_failures = [var.machines]
}

run "rejects_a_machine_without_roles" {
  command = plan
  variables {
    machines = { cp1 = { address = "10.0.0.11" }, cp2 = { address = "10.0.0.12", roles = [] } }
  }
  expect_failures = [var.machines]
}

run "rejects_a_duplicate_address" {
  command = plan
  variables {
    machines = { cp1 = { address = "10.0.0.11" }, cp2 = { address = "10.0.0.11" } }
  }
  expect_failures = [var.machines]
}

run "requires_an_etcd_member" {
  command = plan
  variables {
    machines = { cp1 = { address = "10.0.0.11", roles = ["replica", "balancer"] } }
  }
  expect_failures = [var.machines]
}

run "rejects_six_replicas" {
  command = plan
  variables {
    machines = { for i in range(6) : "cp${i}" => { address = "10.0.0.1${i}" } }
  }
  expect_failures = [var.machines]
}

run "rejects_a_machine_at_the_endpoint_address" {
  command = plan
  variables {
    endpoint = { address = "10.0.0.11" }
  }
  expect_failures = [var.endpoint]
}

run "external" {
  command = plan
  variables {
    endpoint = { address = "api.example.com", external = { health_check = { interval = "1s", threshold = 4, healthy_threshold = 8 }, probe_from = "10.0.0.9", hooks = { register = ["./pool", "add"], drain = ["./pool", "disable"] } } }
    machines = { cp1 = { address = "10.0.0.11", roles = ["etcd", "replica"] }, etcd1 = { address = "10.0.0.21", roles = ["etcd"] } }
  }
  assert {
    condition     = kube_control_plane_endpoint.this.haproxy == null && kube_control_plane_endpoint.this.external.targets == tomap({ cp1 = "10.0.0.11" })
    error_message = "The targets are the machines with the role replica, and no machine needs the role balancer."
  }
  assert {
    condition     = kube_control_plane_endpoint.this.external.health_check.threshold == 4 && kube_control_plane_endpoint.this.external.health_check.healthy_threshold == 8 && kube_control_plane_endpoint.this.external.probe_from == "10.0.0.9" && kube_control_plane_endpoint.this.external.hooks.drain == tolist(["./pool", "disable"])
    error_message = "The settings of the balancer reach the resource."
  }
  assert {
    condition     = output.backend.targets == tomap({ cp1 = "10.0.0.11:6443" }) && output.backend.health_check.path == "/readyz" && output.backend.health_check.tls_name == "kubernetes"
    error_message = "The output backend says what the balancer needs."
  }
}

run "dns" {
  command = plan
  variables {
    endpoint = { address = "api.example.com", dns = { zone = "example.com", server = "10.0.0.53", tsig_key = "api", ttl = "7s" } }
    machines = { cp1 = { address = "10.0.0.11", roles = ["etcd", "replica"] } }
  }
  assert {
    condition     = kube_control_plane_endpoint.this.haproxy == null && kube_control_plane_endpoint.this.dns.targets == tomap({ cp1 = "10.0.0.11" })
    error_message = "The name has the addresses of the machines with the role replica."
  }
  assert {
    condition     = kube_control_plane_endpoint.this.dns.zone == "example.com" && kube_control_plane_endpoint.this.dns.server == "10.0.0.53" && kube_control_plane_endpoint.this.dns.tsig_key == "api" && kube_control_plane_endpoint.this.dns.ttl == "7s"
    error_message = "The settings of the zone reach the resource."
  }
}

run "bgp" {
  command = plan
  variables {
    endpoint = { address = "10.200.0.1", bgp = { asn = 64512, peers = [{ address = "10.0.0.1", asn = 64513, bfd = true, targets = ["cp1"] }] }, install_packages = false }
    machines = { cp1 = { address = "10.0.0.11", roles = ["etcd", "replica"] } }
  }
  assert {
    condition     = kube_control_plane_endpoint.this.haproxy == null && kube_control_plane_endpoint.this.bgp.targets == tomap({ cp1 = "10.0.0.11" })
    error_message = "The machines with the role replica announce the address."
  }
  assert {
    condition     = kube_control_plane_endpoint.this.bgp.asn == 64512 && one(kube_control_plane_endpoint.this.bgp.peers).bfd && one(kube_control_plane_endpoint.this.bgp.peers).targets == toset(["cp1"]) && kube_control_plane_endpoint.this.bgp.bfd_interval == "300ms" && !kube_control_plane_endpoint.this.bgp.install_packages
    error_message = "The routers and the packages' setting reach the resource."
  }
}

run "kube_vip" {
  command = plan
  variables {
    endpoint = { address = "10.0.0.100", interface = "eth1", kube_vip = { lease_duration = "10s" } }
    machines = { cp1 = { address = "10.0.0.11", roles = ["etcd", "replica"] } }
  }
  assert {
    condition     = kube_control_plane_endpoint.this.haproxy == null && kube_control_plane_endpoint.this.kube_vip.targets == tomap({ cp1 = "10.0.0.11" })
    error_message = "The machines with the role replica can have the address."
  }
  assert {
    condition     = kube_control_plane_endpoint.this.kube_vip.mode == "arp" && kube_control_plane_endpoint.this.kube_vip.interface == "eth1" && kube_control_plane_endpoint.this.kube_vip.lease_duration == "10s"
    error_message = "The settings of kube-vip reach the resource."
  }
}

run "kube_vip_by_bgp" {
  command = plan
  variables {
    endpoint = { address = "10.200.0.1", kube_vip = { mode = "bgp", asn = 64512, peers = [{ address = "10.0.0.1", asn = 64513 }], hold_time = "3s" } }
    machines = { cp1 = { address = "10.0.0.11", roles = ["etcd", "replica"] } }
  }
  assert {
    condition     = kube_control_plane_endpoint.this.kube_vip.mode == "bgp" && one(kube_control_plane_endpoint.this.kube_vip.peers).asn == 64513 && kube_control_plane_endpoint.this.kube_vip.hold_time == "3s"
    error_message = "The routers reach the resource."
  }
}

run "rejects_two_kinds_of_endpoint" {
  command = plan
  variables {
    endpoint = { address = "10.200.0.1", external = {}, kube_vip = {} }
  }
  expect_failures = [var.endpoint]
}

run "requires_a_balancer_for_a_virtual_ip" {
  command = plan
  variables {
    machines = { cp1 = { address = "10.0.0.11", roles = ["etcd", "replica"] } }
  }
  expect_failures = [var.endpoint]
}

run "rejects_an_invalid_range" {
  command = plan
  variables {
    network = { pod_cidrs = ["10.244.0.0"] }
  }
  expect_failures = [var.network]
}

run "admin_kubeconfig" {
  command = plan
  assert {
    condition     = length(kube_kubeconfig.admin) == 1
    error_message = "By default there is a kubeconfig for administrators."
  }
}

run "no_admin_kubeconfig" {
  command = plan
  variables {
    admin_kubeconfig = false
  }
  assert {
    condition     = length(kube_kubeconfig.admin) == 0 && output.kubeconfig == null
    error_message = "Without admin_kubeconfig no kubeconfig is issued, and the output is null."
  }
}

run "workers_with_jwt" {
  command = plan
  variables {
    kubernetes = { version = "1.36.3", authentication = { jwt = "- issuer: { url: https://issuer.example.com, audiences: [prod] }\n  claimMappings: { username: { claim: sub, prefix: \"\" } }\n" } }
    workers    = {}
  }
  assert {
    condition = alltrue([for replica in kube_control_plane_replica.this : replica.authentication.jwt != null &&
    replica.authentication.anonymous_paths == toset(["/api/v1/namespaces/kube-public/configmaps/cluster-info"])])
    error_message = "With workers, the API servers answer for cluster-info, and take tokens as before."
  }
}

run "workers_with_flags_of_authentication" {
  command = plan
  variables {
    kubernetes = { version = "1.36.3", extra_args = { apiserver = { oidc-issuer-url = "https://issuer.example.com", oidc-client-id = "prod" } } }
    workers    = {}
  }
  assert {
    condition     = alltrue([for replica in kube_control_plane_replica.this : replica.authentication == null])
    error_message = "Flags exclude the argument authentication."
  }
}

run "an_own_data_dir" {
  command = plan
  variables {
    etcd = { version = "3.6.16", volumes = { cp2 = { device = "/dev/disk/by-id/etcd2", mount_path = "/var/lib/etcd-volume", data_dir = "/var/lib/etcd-volume/etcd" } } }
  }
  assert {
    condition = (kube_etcd_member.this["cp2"].data_dir == "/var/lib/etcd-volume/etcd" && kube_etcd_member.this["cp2"].volume.device == "/dev/disk/by-id/etcd2" &&
    kube_etcd_member.this["cp1"].data_dir == "/var/lib/etcd" && kube_etcd_member.this["cp1"].volume == null)
    error_message = "One machine has a volume with a data directory of its own."
  }
}

run "rejects_a_volume_of_no_machine" {
  command = plan
  variables {
    etcd = { version = "3.6.16", volumes = { cp-1 = { device = "/dev/disk/by-id/etcd1", mount_path = "/var/lib/etcd-volume" } } }
  }
  expect_failures = [var.etcd]
}

run "rejects_data_of_no_machine" {
  command = plan
  variables {
    etcd = { version = "3.6.16", archived_data_dirs = { cp02 = "/var/lib/etcd-aside" } }
  }
  expect_failures = [var.etcd]
}

run "rejects_maintenance_of_no_machine" {
  command = plan
  variables {
    maintenance = { cp02 = { etcd = { snapshot = "before the change" } } }
  }
  expect_failures = [var.maintenance]
}

run "rejects_certificates_of_no_machine" {
  command = plan
  variables {
    signed = { cp02 = {} }
  }
  expect_failures = [var.signed]
}

run "rejects_packages_of_kube_vip" {
  command = plan
  variables {
    endpoint = { address = "10.0.0.100", kube_vip = {}, install_packages = false }
  }
  expect_failures = [var.endpoint]
}

run "rejects_settings_of_another_kind" {
  command = plan
  variables {
    endpoint = { address = "10.200.0.1", address6 = "fd00::1", external = {} }
  }
  expect_failures = [var.endpoint]
}

run "no_additional_endpoints_any_more" {
  command = plan
  variables {
    additional_endpoints = []
  }
  assert {
    condition     = alltrue([for replica in kube_control_plane_replica.this : replica.additional_endpoints == null])
    error_message = "An empty list is none."
  }
}

run "rejects_another_port_of_a_name" {
  command = plan
  variables {
    endpoint = { address = "api.example.com", port = 443, dns = { zone = "example.com", server = "10.0.0.53", tsig_key = "api" } }
  }
  expect_failures = [var.endpoint]
}

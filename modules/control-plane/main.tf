# A control plane on the machines in var.machines. The caller configures the
# provider and how it reaches the machines.

locals {
  with = { for role in ["etcd", "replica", "balancer"] : role => {
    for name, machine in var.machines : name => machine.address if contains(machine.roles, role)
  } }

  # Whether a replica uses only the etcd member on its own machine.
  own = { for name, address in local.with["replica"] : name => var.kubernetes.members == "own" && contains(keys(local.with["etcd"]), name) }

  # What is reserved on machines that carry both etcd and a replica. Percentages follow the machine's size.
  reserved = {
    etcd               = { memory_min = "10%", cpu_weight = 1000, io_weight = 1000 }
    apiserver          = { memory_min = "20%", cpu_weight = 500, io_weight = 200 }
    controller_manager = { memory_min = "3%", cpu_weight = 200 }
    scheduler          = { memory_min = "2%", cpu_weight = 200 }
  }
  given = {
    etcd               = var.etcd.resources
    apiserver          = try(var.kubernetes.resources.apiserver, null)
    controller_manager = try(var.kubernetes.resources.controller_manager, null)
    scheduler          = try(var.kubernetes.resources.scheduler, null)
  }
  resources = { for machine, settings in var.machines : machine => { for component, reserved in local.reserved : component => merge(
    { for name, value in reserved : name => value if var.reservations && (component == "etcd" ? var.etcd.runtime : var.kubernetes.runtime) != "static_pod" && length(setintersection(settings.roles, ["etcd", "replica"])) == 2 },
    { for name, value in local.given[component] == null ? {} : local.given[component] : name => value if value != null },
  ) } }

  # Whether all resources write facts for node_exporter.
  facts = try(var.etcd.metrics.textfile_directory, null) != null && try(var.kubernetes.metrics.textfile_directory, null) != null && (
    !local.balanced || try(var.endpoint.metrics.textfile_directory, null) != null
  )

  # Whether the endpoint is a virtual IP on balancers.
  balanced = alltrue([for kind in [var.endpoint.external, var.endpoint.dns, var.endpoint.bgp, var.endpoint.kube_vip] : kind == null])
}

resource "kube_pki_bundle" "this" {
  cluster_name        = var.cluster_name
  deletion_protection = var.pki.deletion_protection
  key_algorithm       = var.pki.key_algorithm
  ca_validity         = var.pki.ca_validity
  encryption          = var.pki.encryption
  rotation            = var.pki.rotation

  ca = var.pki.ca == null ? null : {
    certificate            = var.pki.ca.certificate
    key_held_elsewhere     = var.pki.ca.key_held_elsewhere
    private_key_wo         = lookup(var.private_keys, "kubernetes", null)
    private_key_wo_version = var.pki.ca.private_key_wo_version
  }
  etcd_ca = var.pki.etcd_ca == null ? null : {
    certificate            = var.pki.etcd_ca.certificate
    key_held_elsewhere     = var.pki.etcd_ca.key_held_elsewhere
    private_key_wo         = lookup(var.private_keys, "etcd", null)
    private_key_wo_version = var.pki.etcd_ca.private_key_wo_version
  }
  front_proxy_ca = var.pki.front_proxy_ca == null ? null : {
    certificate            = var.pki.front_proxy_ca.certificate
    key_held_elsewhere     = var.pki.front_proxy_ca.key_held_elsewhere
    private_key_wo         = lookup(var.private_keys, "front_proxy", null)
    private_key_wo_version = var.pki.front_proxy_ca.private_key_wo_version
  }
  service_account = var.pki.service_account == null ? null : {
    private_key_wo         = lookup(var.private_keys, "service_account", null)
    private_key_wo_version = var.pki.service_account.private_key_wo_version
  }
}

resource "kube_control_plane_endpoint" "this" {
  address        = var.endpoint.address
  port           = var.endpoint.port
  pki            = kube_pki_bundle.this.bundle
  ca_certificate = local.balanced ? kube_pki_bundle.this.ca_certificate : null
  drain_timeout  = var.endpoint.drain_timeout
  external = var.endpoint.external == null ? null : {
    targets      = local.with["replica"]
    target_port  = var.kubernetes.port
    health_check = var.endpoint.external.health_check
    probe_from   = var.endpoint.external.probe_from
    hooks        = var.endpoint.external.hooks
  }
  dns = var.endpoint.dns == null ? null : {
    targets          = local.with["replica"]
    zone             = var.endpoint.dns.zone
    server           = var.endpoint.dns.server
    name_servers     = var.endpoint.dns.name_servers
    tsig_key         = var.endpoint.dns.tsig_key
    ttl              = var.endpoint.dns.ttl
    check_interval   = var.endpoint.dns.check_interval
    check_threshold  = var.endpoint.dns.check_threshold
    probe_from       = var.endpoint.dns.probe_from
    install_packages = var.endpoint.install_packages
  }
  bgp = var.endpoint.bgp == null ? null : {
    targets          = local.with["replica"]
    asn              = var.endpoint.bgp.asn
    peers            = var.endpoint.bgp.peers
    hold_time        = var.endpoint.bgp.hold_time
    bfd_interval     = var.endpoint.bgp.bfd_interval
    propagation_time = var.endpoint.bgp.propagation_time
    install_packages = var.endpoint.install_packages
  }
  kube_vip = var.endpoint.kube_vip == null ? null : {
    targets          = local.with["replica"]
    mode             = var.endpoint.kube_vip.mode
    interface        = var.endpoint.interface
    program          = var.endpoint.kube_vip.program
    sha256           = var.endpoint.kube_vip.sha256
    lease_name       = var.endpoint.kube_vip.lease_name
    lease_duration   = var.endpoint.kube_vip.lease_duration
    asn              = var.endpoint.kube_vip.asn
    peers            = var.endpoint.kube_vip.peers
    hold_time        = var.endpoint.kube_vip.hold_time
    propagation_time = var.endpoint.kube_vip.propagation_time
  }
  haproxy = local.balanced ? {
    hosts                = local.with["balancer"]
    address6             = var.endpoint.address6
    additional_addresses = var.endpoint.additional_addresses
    interface            = var.endpoint.interface
    virtual_router_id    = var.endpoint.virtual_router_id
    vrrp                 = var.endpoint.vrrp
    hand_over            = var.endpoint.hand_over
    inherit              = var.endpoint.inherit
    install_packages     = var.endpoint.install_packages
    konnectivity = var.kubernetes.konnectivity == null ? null : {
      port    = var.kubernetes.konnectivity.agent_port
      targets = local.with["replica"]
    }
    metrics        = var.endpoint.metrics
    liveness_probe = var.endpoint.liveness_probe
  } : null
  timeouts = var.endpoint.timeouts
}

locals {
  # The member takes the replica on its machine out of rotation while it restarts.
  additional_hooks = var.additional_endpoints == null ? [] : [
    for e in var.additional_endpoints : { address = e.address, hooks = e.hooks } if try(e.hooks, null) != null
  ]
}

resource "kube_etcd_member" "this" {
  for_each = local.with["etcd"]

  name                 = each.key
  host                 = { address = each.value }
  endpoint             = try(var.endpoint.external.hooks, null) == null ? null : { address = var.endpoint.address, hooks = var.endpoint.external.hooks }
  additional_endpoints = length(local.additional_hooks) == 0 ? null : local.additional_hooks
  peers                = local.with["etcd"]
  pki                  = kube_pki_bundle.this.bundle
  version              = var.etcd.version
  runtime              = var.etcd.runtime
  image                = var.etcd.image
  patch                = var.etcd.patch
  install_kubelet      = var.etcd.install_kubelet
  extra_args           = var.etcd.extra_args
  data_dir             = try(coalesce(var.etcd.volumes[each.key].data_dir), var.etcd.data_dir)
  volume = try({
    device     = var.etcd.volumes[each.key].device
    uuid       = var.etcd.volumes[each.key].uuid
    mount_path = var.etcd.volumes[each.key].mount_path
    fenced     = var.etcd.volumes[each.key].fenced
  }, null)
  archived_data_dir      = try(var.etcd.archived_data_dirs[each.key], null)
  on_destroy             = var.etcd.on_destroy
  upgrade_snapshots_kept = var.etcd.upgrade_snapshots_kept
  archives_kept          = var.etcd.archives_kept
  snapshots              = var.etcd.snapshots
  restore                = var.etcd.restore
  liveness_probe         = var.etcd.runtime == "static_pod" ? null : var.etcd.liveness_probe
  maintenance            = try(var.maintenance[each.key].etcd, null)
  metrics                = var.etcd.metrics
  environment            = var.etcd.environment
  resources              = length(local.resources[each.key].etcd) == 0 ? null : local.resources[each.key].etcd
  signed                 = try(var.signed[each.key].etcd_member, null)
  early_renewal          = var.pki.early_renewal
  timeouts               = var.etcd.timeouts
}

resource "kube_control_plane_replica" "this" {
  for_each = local.with["replica"]

  name           = each.key
  host           = { address = each.value }
  endpoint       = kube_control_plane_endpoint.this.registration
  etcd           = local.own[each.key] ? [kube_etcd_member.this[each.key].client_url] : values(kube_etcd_member.this)[*].client_url
  pki            = kube_pki_bundle.this.bundle
  version        = var.kubernetes.version
  port           = var.kubernetes.port
  service_cidrs  = var.network.service_cidrs
  pod_cidrs      = var.network.pod_cidrs
  cluster_domain = var.network.cluster_domain
  extra_sans     = var.kubernetes.extra_sans
  extra_args     = var.kubernetes.extra_args
  repeated_args  = var.kubernetes.repeated_args
  environment    = var.kubernetes.environment
  admin_conf     = var.kubernetes.admin_conf
  liveness_probe = var.kubernetes.runtime == "static_pod" ? null : var.kubernetes.liveness_probe
  maintenance    = try(var.maintenance[each.key].replica, null)
  metrics        = var.kubernetes.metrics
  audit          = var.kubernetes.audit
  authentication = local.authentication
  resources = sum([for component in ["apiserver", "controller_manager", "scheduler"] : length(local.resources[each.key][component])]) == 0 ? null : {
    for component in ["apiserver", "controller_manager", "scheduler"] : component => local.resources[each.key][component] if length(local.resources[each.key][component]) > 0
  }
  signed        = try(var.signed[each.key].replica, null)
  early_renewal = var.pki.early_renewal

  files = var.kubernetes.files == null ? null : { for name, file in var.kubernetes.files : name => {
    content    = file.content
    content_wo = file.content == null ? lookup(var.secret_files, name, null) : null
    mode       = file.mode
    owner      = file.owner
    restart    = file.restart
  } }

  additional_endpoints = try(length(var.additional_endpoints), 0) == 0 ? null : var.additional_endpoints
  supplementary_groups = var.kubernetes.supplementary_groups
  konnectivity         = var.kubernetes.konnectivity
  listen               = var.kubernetes.listen
  verify_kubelets      = var.kubernetes.verify_kubelets
  runtime              = var.kubernetes.runtime
  image_repository     = var.kubernetes.image_repository
  install_kubelet      = var.kubernetes.install_kubelet
  manage_kubelet       = var.kubernetes.manage_kubelet
  patches              = var.kubernetes.patches
  extra_volumes        = var.kubernetes.extra_volumes
  timeouts             = var.kubernetes.timeouts
}

# After all replicas, so that its version follows an upgrade, and nothing joins before.
resource "kube_node_bootstrap" "this" {
  count = var.workers == null ? 0 : 1

  pki               = kube_pki_bundle.this.bundle
  endpoint          = kube_control_plane_endpoint.this.registration
  version           = var.kubernetes.version
  service_cidrs     = var.network.service_cidrs
  pod_cidrs         = var.network.pod_cidrs
  cluster_domain    = var.network.cluster_domain
  cluster_dns       = var.workers.cluster_dns
  kubelet_config    = var.workers.kubelet_config
  discovery_by_file = var.workers.discovery_by_file
  adopt             = var.workers.adopt
  timeouts          = var.workers.timeouts

  depends_on = [kube_control_plane_replica.this]
}

locals {
  # kubeadm join reads cluster-info without credentials.
  # Flags that configure authentication exclude the argument: see the variable workers.
  by_flags = anytrue([for flag in keys(coalesce(var.kubernetes.extra_args.apiserver, {})) :
  flag == "authentication-config" || startswith(flag, "oidc-")])
  discovery = var.workers == null || try(var.workers.discovery_by_file, false) || local.by_flags ? [] : [
    "/api/v1/namespaces/kube-public/configmaps/cluster-info",
  ]
  authentication = length(local.discovery) == 0 ? var.kubernetes.authentication : {
    jwt             = try(var.kubernetes.authentication.jwt, null)
    anonymous_paths = toset(concat(local.discovery, tolist(coalesce(try(var.kubernetes.authentication.anonymous_paths, null), toset([])))))
  }
}

resource "kube_kubeconfig" "admin" {
  count = var.admin_kubeconfig ? 1 : 0

  pki    = kube_pki_bundle.this.bundle
  server = kube_control_plane_endpoint.this.url
}

variable "cluster_name" {
  description = "Name of the cluster."
  type        = string
  nullable    = false
}

variable "machines" {
  description = <<-EOT
    The machines, by name. Each has an address, at which the other machines reach it, and roles:
    "etcd" (an etcd member), "replica" (API server, controller manager and scheduler) and "balancer" (HAProxy and the virtual IP).
    Default roles: all three. To scale, add or remove machines.
  EOT
  type = map(object({
    address = string
    roles   = optional(set(string), ["etcd", "replica", "balancer"])
  }))
  nullable = false

  validation {
    condition     = alltrue([for machine in var.machines : length(setsubtract(machine.roles, ["etcd", "replica", "balancer"])) == 0])
    error_message = "The roles of a machine must be \"etcd\", \"replica\" or \"balancer\"."
  }
  validation {
    condition     = alltrue([for machine in var.machines : length(machine.roles) > 0])
    error_message = "Every machine must have at least one role. Remove machines that have none."
  }
  validation {
    condition     = length(distinct([for machine in var.machines : machine.address])) == length(var.machines)
    error_message = "Two machines have the same address."
  }
  validation {
    condition = alltrue([for role in ["etcd", "replica"] :
    anytrue([for machine in var.machines : contains(machine.roles, role)])])
    error_message = "The roles \"etcd\" and \"replica\" must each be on at least one machine."
  }
  validation {
    condition     = length([for machine in var.machines : machine if contains(machine.roles, "replica")]) <= 5
    error_message = "At most five machines can be replicas: more do not make the API safer, and each one must be kept in step."
  }
  validation {
    condition     = length([for machine in var.machines : machine if contains(machine.roles, "etcd")]) <= 7
    error_message = "At most seven machines can be etcd members (1, 3 or 5 are usual): every additional member makes writes slower."
  }
}

variable "endpoint" {
  description = <<-EOT
    The fixed address of the API: an unused one in the balancers' network. The README says what a change does.
    With metrics, HAProxy serves its metrics at an address and port, and facts are written to the directory of node_exporter's textfile collector.
    HAProxy and keepalived are restarted when they hang, unless liveness_probe is false. Changing it restarts nothing.
    With address6, an unused IPv6 address, the API has a second one, on the same machine; with additional_addresses, further ones of either family.
    With hand_over, the address moves from a balancer of this control plane ("prepare", then "take") or to one ("release", guide Topologies).
    With inherit too, it moves from HAProxy and keepalived of the machines themselves, as kubeadm's guide sets them up.
    With external, the address or DNS name of a balancer that others look after: it sends requests to the machines with the role "replica", and no machine needs the role "balancer".
    With dns, a name in a zone that takes dynamic updates: it has the addresses of the machines with the role "replica" that are ready. The provider's tsig_keys have the key.
    With bgp, an address that the machines with the role "replica" announce to their routers.
    With kube_vip, an unused address in the network of the machines with the role "replica". kube-vip, which you install there, gives it to one of them, or, with mode = "bgp", announces it from each (then it is in none of their networks).
  EOT
  type = object({
    address              = string
    address6             = optional(string)
    additional_addresses = optional(list(string))
    port                 = optional(number, 6443)
    drain_timeout        = optional(string, "10s")
    interface            = optional(string)
    virtual_router_id    = optional(number)
    vrrp                 = optional(string)
    hand_over            = optional(string)
    inherit              = optional(bool)
    install_packages     = optional(bool, true)
    liveness_probe       = optional(bool, true)
    metrics = optional(object({
      address            = optional(string)
      port               = optional(number)
      textfile_directory = optional(string)
    }))
    external = optional(object({
      health_check = optional(object({ interval = optional(string, "2s"), threshold = optional(number, 3), healthy_threshold = optional(number) }), {})
      probe_from   = optional(string)
      hooks        = optional(object({ register = optional(list(string)), drain = optional(list(string)), deregister = optional(list(string)), status = optional(list(string)) }))
    }))
    dns = optional(object({
      zone            = string
      server          = string
      tsig_key        = string
      name_servers    = optional(list(string))
      ttl             = optional(string, "5s")
      check_interval  = optional(string, "1s")
      check_threshold = optional(number, 3)
      probe_from      = optional(string)
    }))
    bgp = optional(object({
      asn              = number
      peers            = list(object({ address = string, asn = number, bfd = optional(bool), multihop = optional(number), password = optional(string), targets = optional(set(string)) }))
      hold_time        = optional(string, "3s")
      bfd_interval     = optional(string, "300ms")
      propagation_time = optional(string, "1s")
    }))
    kube_vip = optional(object({
      mode             = optional(string, "arp")
      program          = optional(string, "/usr/local/bin/kube-vip")
      sha256           = optional(string)
      lease_name       = optional(string)
      lease_duration   = optional(string, "5s")
      asn              = optional(number)
      peers            = optional(list(object({ address = string, asn = number, multihop = optional(number), password = optional(string), targets = optional(set(string)) })))
      hold_time        = optional(string)
      propagation_time = optional(string)
    }))
    timeouts = optional(object({ create = optional(string), read = optional(string), update = optional(string), delete = optional(string) }))
  })
  nullable = false

  validation {
    condition     = length([for kind in [var.endpoint.external, var.endpoint.dns, var.endpoint.bgp, var.endpoint.kube_vip] : kind if kind != null]) <= 1
    error_message = "The endpoint is of one kind: set one of external, dns, bgp and kube_vip, or none."
  }
  validation {
    condition     = var.endpoint.external != null || var.endpoint.dns != null || var.endpoint.bgp != null || var.endpoint.kube_vip != null || anytrue([for machine in var.machines : contains(machine.roles, "balancer")])
    error_message = "The role \"balancer\" must be on at least one machine, unless the endpoint is external, dns, bgp or kube_vip."
  }
  validation {
    condition = alltrue([for kind in [var.endpoint.external, var.endpoint.dns, var.endpoint.bgp, var.endpoint.kube_vip] : kind == null]) || alltrue([
      var.endpoint.address6 == null, var.endpoint.additional_addresses == null, var.endpoint.virtual_router_id == null, var.endpoint.vrrp == null,
      var.endpoint.hand_over == null, var.endpoint.inherit == null, var.endpoint.metrics == null, var.endpoint.interface == null || var.endpoint.kube_vip != null,
    ])
    error_message = "address6, additional_addresses, virtual_router_id, vrrp, hand_over, inherit, metrics and interface are settings of the module's balancers (interface of kube_vip too): they affect no endpoint that is external, dns, bgp or kube_vip."
  }
  validation {
    condition     = var.endpoint.install_packages || (var.endpoint.external == null && var.endpoint.kube_vip == null)
    error_message = "install_packages affects no endpoint that is external or kube_vip: no packages are installed for it. Remove it."
  }
  validation {
    condition     = alltrue([for kind in [var.endpoint.dns, var.endpoint.bgp, var.endpoint.kube_vip] : kind == null]) || var.endpoint.port == var.kubernetes.port
    error_message = "endpoint.port and kubernetes.port must be the same with dns, bgp and kube_vip: clients reach the API servers themselves."
  }
  validation {
    condition     = alltrue([for machine in var.machines : machine.address != var.endpoint.address])
    error_message = "The endpoint's address belongs to one of the machines. It must be an unused address."
  }
}

variable "additional_endpoints" {
  description = <<-EOT
    The registration of further endpoints of this control plane, which the caller creates with the output pki: another address for other clients, or an endpoint while another one takes over.
    Default: none.
  EOT
  type        = any
  default     = null

  validation {
    condition     = var.additional_endpoints == null || can(var.additional_endpoints[*].address)
    error_message = "additional_endpoints must be a list of registrations of kube_control_plane_endpoint resources."
  }
}

variable "etcd" {
  description = <<-EOT
    etcd. version is required, so that an update of the module does not upgrade a cluster.
    A change to the version, flags or limits restarts one member at a time, the leader last.
    snapshots are saved on a schedule by the machine whose member is the leader, and copied elsewhere by the upload command, or to a bucket (s3). Changing them, metrics.textfile_directory or liveness_probe restarts nothing.
    runtime is what runs the members: "systemd" (the default), or "static_pod", with the image: see the guide "Static pods".
    restore gives a cluster without quorum its data back, once for each id: see the guide "When everything is lost".
    metrics.address is where etcd serves its metrics over TLS, at port 2382. metrics.textfile_directory is the directory of node_exporter's textfile collector, for facts about the member.
    volumes are the disks with data_dir, by the name of the machine, which move to another machine with their member: see the guide "Replace machines and disks". Each may have a data_dir of its own.
    archived_data_dirs are data directories that were moved aside, by the name of the machine, with which its member goes on: see the same guide.
  EOT
  type = object({
    version    = string
    runtime    = optional(string)
    image      = optional(string)
    patch      = optional(string)
    extra_args = optional(map(string), {})
    install_kubelet = optional(object({
      version       = string
      sandbox_image = optional(string)
    }))
    data_dir = optional(string, "/var/lib/etcd")
    volumes = optional(map(object({
      device     = optional(string)
      uuid       = optional(string)
      mount_path = string
      fenced     = optional(bool)
      data_dir   = optional(string)
    })), {})
    archived_data_dirs     = optional(map(string), {})
    on_destroy             = optional(string, "archive")
    upgrade_snapshots_kept = optional(number, 3)
    archives_kept          = optional(number, 5)
    snapshots = optional(object({
      schedule         = optional(string, "hourly")
      kept             = optional(number, 24)
      upload           = optional(string)
      environment_file = optional(string)
      s3 = optional(object({
        endpoint         = string
        region           = optional(string)
        bucket           = string
        prefix           = optional(string)
        credentials_file = string
        ca_certificate   = optional(string)
        recipients       = optional(set(string))
        object_lock      = optional(object({ mode = string, days = number }))
        kept             = optional(number, 168)
      }))
    }))
    restore = optional(object({
      id               = string
      member           = optional(string)
      snapshot         = optional(string)
      file             = optional(string)
      bucket           = optional(string)
      identity_file    = optional(string)
      fetch            = optional(string)
      environment_file = optional(string)
      revision_bump    = optional(number)
      accept_older     = optional(bool)
      accept_other_ca  = optional(bool)
    }))
    liveness_probe = optional(bool, true)
    metrics        = optional(object({ address = optional(string), textfile_directory = optional(string) }))
    environment    = optional(map(string))
    resources = optional(object({
      memory_high = optional(string)
      memory_max  = optional(string)
      cpu_quota   = optional(string)
      memory_min  = optional(string)
      cpu_weight  = optional(number)
      io_weight   = optional(number)
    }))
    timeouts = optional(object({ create = optional(string), read = optional(string), update = optional(string), delete = optional(string) }))
  })
  nullable = false

  validation {
    condition = alltrue([for name in concat(keys(coalesce(var.etcd.volumes, {})), keys(coalesce(var.etcd.archived_data_dirs, {}))) :
    contains(try(var.machines[name].roles, []), "etcd")])
    error_message = "volumes and archived_data_dirs are by the name of a machine with the role \"etcd\". One of their names is that of no such machine."
  }
}

variable "workers" {
  description = <<-EOT
    What kubeadm join of workers needs (guide "Join workers"). Default: null, nothing.
    The API servers then answer requests for cluster-info without credentials, unless discovery_by_file is true.
    With a flag authentication-config of your own, its file must allow that path. With flags oidc-…, they answer it anyway.
    kubelet_config has fields of a KubeletConfiguration, in YAML. adopt takes over existing objects, such as kubeadm's.
  EOT
  type = object({
    kubelet_config    = optional(string)
    cluster_dns       = optional(list(string))
    discovery_by_file = optional(bool, false)
    adopt             = optional(bool, false)
    timeouts          = optional(object({ create = optional(string), read = optional(string), update = optional(string), delete = optional(string) }))
  })
  default = null
}

variable "kubernetes" {
  description = <<-EOT
    Kubernetes. version is required, so that an update of the module does not upgrade a cluster.
    Only changes of the API server take a replica out of rotation, one at a time. The page of kube_control_plane_replica says what each change does.
    The defaults of audit, authentication and resources are described in the guide "Hardening".
    supplementary_groups are groups on the machines that may open the socket of a KMS plugin.
    repeated_args are flags that are given once for each value, such as service-account-issuer.
    environment has environment variables of the components, such as HTTPS_PROXY. They are no secrets.
    files are placed in /etc/kubernetes/files, where flags in extra_args name them. A file without content takes it from secret_files.
    konnectivity is the path from API servers to Services, Pods and nodes, for machines that do not reach them. Balancers of the module get its port.
    runtime is "systemd" or "static_pod" (guide "Static pods"). Nothing is reserved for static pods. With manage_kubelet, the kubelet has the same version.
    members selects the etcd members that a replica uses: "own" (the member on its machine, or all members if it has none) or "all".
  EOT
  type = object({
    version = string
    port    = optional(number, 6443)
    members = optional(string, "own")
    extra_args = optional(object({
      apiserver          = optional(map(string))
      controller_manager = optional(map(string))
      scheduler          = optional(map(string))
    }), {})
    repeated_args = optional(object({
      apiserver          = optional(map(list(string)))
      controller_manager = optional(map(list(string)))
      scheduler          = optional(map(list(string)))
    }))
    environment = optional(object({
      apiserver          = optional(map(string))
      controller_manager = optional(map(string))
      scheduler          = optional(map(string))
    }))
    extra_sans     = optional(set(string), [])
    admin_conf     = optional(bool, true)
    liveness_probe = optional(bool, true)
    metrics        = optional(object({ address = optional(string), textfile_directory = optional(string) }))
    audit = optional(object({
      enabled      = optional(bool)
      policy       = optional(string)
      max_age_days = optional(number)
      max_backups  = optional(number)
      max_size_mb  = optional(number)
    }))
    authentication = optional(object({
      jwt             = optional(string)
      anonymous_paths = optional(set(string))
    }))
    resources = optional(object({
      apiserver = optional(object({
        memory_high = optional(string)
        memory_max  = optional(string)
        cpu_quota   = optional(string)
        memory_min  = optional(string)
        cpu_weight  = optional(number)
        io_weight   = optional(number)
      }))
      controller_manager = optional(object({
        memory_high = optional(string)
        memory_max  = optional(string)
        cpu_quota   = optional(string)
        memory_min  = optional(string)
        cpu_weight  = optional(number)
        io_weight   = optional(number)
      }))
      scheduler = optional(object({
        memory_high = optional(string)
        memory_max  = optional(string)
        cpu_quota   = optional(string)
        memory_min  = optional(string)
        cpu_weight  = optional(number)
        io_weight   = optional(number)
      }))
    }))
    supplementary_groups = optional(set(string))
    konnectivity = optional(object({
      program    = optional(string)
      agent_port = optional(number)
    }))
    files = optional(map(object({
      content = optional(string)
      mode    = optional(string)
      owner   = optional(string)
      restart = optional(bool)
    })))
    extra_volumes = optional(object({
      apiserver          = optional(map(object({ host_path = string, mount_path = string, read_only = optional(bool), path_type = optional(string) })))
      controller_manager = optional(map(object({ host_path = string, mount_path = string, read_only = optional(bool), path_type = optional(string) })))
      scheduler          = optional(map(object({ host_path = string, mount_path = string, read_only = optional(bool), path_type = optional(string) })))
    }))
    listen           = optional(string)
    verify_kubelets  = optional(bool)
    runtime          = optional(string)
    image_repository = optional(string)
    install_kubelet  = optional(object({ version = string, sandbox_image = optional(string) }))
    manage_kubelet   = optional(bool)
    patches          = optional(object({ apiserver = optional(string), controller_manager = optional(string), scheduler = optional(string) }))
    timeouts         = optional(object({ create = optional(string), read = optional(string), update = optional(string), delete = optional(string) }))
  })
  nullable = false

  validation {
    condition     = contains(["own", "all"], var.kubernetes.members)
    error_message = "members must be \"own\" or \"all\"."
  }
}

variable "reservations" {
  description = <<-EOT
    Whether machines with etcd and a replica reserve memory (in percent of the machine's), processors and disks for them, against what else runs there.
    memory_min, cpu_weight and io_weight in resources override each of the values. A change restarts one member or replica at a time.
  EOT
  type        = bool
  default     = true
  nullable    = false
}

variable "secret_files" {
  description = "Contents of the files in kubernetes.files that hold keys or tokens, by name. They are in no plan and no state. Terraform 1.11, OpenTofu 1.11 or later."
  type        = map(string)
  default     = {}
  nullable    = false
  ephemeral   = true
}

variable "network" {
  description = "Address ranges of Services and Pods (two each for dual stack), and the DNS domain of the cluster. Without pod_cidrs the network plugin allocates Pod addresses."
  type = object({
    service_cidrs  = optional(list(string), ["10.96.0.0/12"])
    pod_cidrs      = optional(list(string))
    cluster_domain = optional(string, "cluster.local")
  })
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for cidr in concat(var.network.service_cidrs, coalesce(var.network.pod_cidrs, [])) : can(cidrhost(cidr, 1))])
    error_message = "Every range must be in CIDR notation, such as 10.96.0.0/12."
  }
}

variable "pki" {
  description = <<-EOT
    Keys and certificates.
    deletion_protection keeps the cluster from being destroyed. To destroy it, set it to false and apply first.
    encryption encrypts Secrets at rest: with provider "secretbox" or "aescbc" the bundle holds the keys; "kms" takes the name and socket of a KMS v2 plugin.
    rotation has the stages of rotations. Raising a number by one is one stage, in an apply of its own.
    ca, etcd_ca, front_proxy_ca and service_account are keys of your own, see private_keys and signed.
  EOT
  type = object({
    deletion_protection = optional(bool, true)
    key_algorithm       = optional(string, "ECDSA-P256")
    ca_validity         = optional(string, "87600h")
    early_renewal       = optional(string)
    encryption = optional(object({
      provider  = string
      resources = optional(set(string))
      kms       = optional(object({ name = string, endpoint = string, timeout = optional(string) }))
    }))
    rotation = optional(object({
      kubernetes      = optional(number)
      etcd            = optional(number)
      front_proxy     = optional(number)
      service_account = optional(number)
      encryption      = optional(number)
    }), {})
    ca              = optional(object({ certificate = string, key_held_elsewhere = optional(bool), private_key_wo_version = optional(number) }))
    etcd_ca         = optional(object({ certificate = string, key_held_elsewhere = optional(bool), private_key_wo_version = optional(number) }))
    front_proxy_ca  = optional(object({ certificate = string, key_held_elsewhere = optional(bool), private_key_wo_version = optional(number) }))
    service_account = optional(object({ private_key_wo_version = optional(number) }))
  })
  default  = {}
  nullable = false
}

variable "private_keys" {
  description = <<-EOT
    Private keys (PEM) of the CAs and the service accounts in pki: "kubernetes", "etcd", "front_proxy", "service_account". They are only in the bundle.
    If you change one, raise its private_key_wo_version in pki. Default: none, and the provider generates the keys.
  EOT
  type        = map(string)
  default     = {}
  nullable    = false
  ephemeral   = true
}

variable "signed" {
  description = <<-EOT
    Certificates that an external CA signed, by machine, if the key of a CA in pki is held elsewhere: keys and certificates of a kube_certificate_requests.
    The requests take the output pki, so both can be in one configuration. Set admin_kubeconfig to false if the key of the Kubernetes CA is held elsewhere.
  EOT
  type = map(object({
    etcd_member = optional(object({ keys = string, certificates = map(string) }))
    replica     = optional(object({ keys = string, certificates = map(string) }))
  }))
  default  = {}
  nullable = false

  validation {
    condition     = length(setsubtract(keys(var.signed), keys(var.machines))) == 0
    error_message = "signed is by the name of a machine. One of its names is in machines no more, or is misspelled."
  }
}

variable "admin_kubeconfig" {
  description = "Whether to issue a kubeconfig for cluster administrators, the output kubeconfig. Its private key is in the state."
  type        = bool
  default     = true
  nullable    = false
}

variable "maintenance" {
  description = <<-EOT
    Maintenance on request, by machine, for CLIs without actions. A new text requests it once, in that apply:
    of etcd a snapshot, a defragmentation (one member at a time), and leadership; of the replica, leaving rotation for the time hold.
  EOT
  type = map(object({
    etcd = optional(object({
      snapshot         = optional(string)
      defragment       = optional(string)
      min_free_percent = optional(number)
      force            = optional(bool)
      move_leader      = optional(string)
    }))
    replica = optional(object({
      drain = optional(string)
      hold  = optional(string)
    }))
  }))
  default  = {}
  nullable = false

  validation {
    condition     = length(setsubtract(keys(var.maintenance), keys(var.machines))) == 0
    error_message = "maintenance is by the name of a machine. One of its names is in machines no more, or is misspelled."
  }
}

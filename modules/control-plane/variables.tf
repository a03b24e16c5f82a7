variable "cluster_name" {
  description = "Name of the cluster."
  type        = string
  nullable    = false
}

variable "machines" {
  description = <<-EOT
    The machines by name. Each has an address, under which the others reach it, and roles:
    "etcd" (a member), "replica" (API server, controller manager, scheduler) and "balancer" (HAProxy and the virtual IP).
    Without roles a machine has all three.
    To scale, add or remove machines here.
  EOT
  type = map(object({
    address = string
    roles   = optional(set(string), ["etcd", "replica", "balancer"])
  }))
  nullable = false

  validation {
    condition     = alltrue([for machine in var.machines : length(setsubtract(machine.roles, ["etcd", "replica", "balancer"])) == 0])
    error_message = "The roles of a machine are \"etcd\", \"replica\" and \"balancer\"."
  }
  validation {
    condition     = alltrue([for machine in var.machines : length(machine.roles) > 0])
    error_message = "A machine without a role has no place here: leave it out."
  }
  validation {
    condition     = length(distinct([for machine in var.machines : machine.address])) == length(var.machines)
    error_message = "Two machines have the same address."
  }
  validation {
    condition = alltrue([for role in ["etcd", "replica", "balancer"] :
    anytrue([for machine in var.machines : contains(machine.roles, role)])])
    error_message = "Every role has to be on one machine at least: \"etcd\", \"replica\" and \"balancer\"."
  }
  validation {
    condition     = length([for machine in var.machines : machine if contains(machine.roles, "replica")]) <= 5
    error_message = "More than five replicas add no safety: every one more has to be kept in step."
  }
  validation {
    condition     = length([for machine in var.machines : machine if contains(machine.roles, "etcd")]) <= 7
    error_message = "etcd has 1, 3 or 5 members, 7 at most: with every one more, writes take longer."
  }
}

variable "endpoint" {
  description = "The API's fixed address: a free one in the balancers' network. A change of anything but the address is taken over without a dropped connection."
  type = object({
    address           = string
    port              = optional(number, 6443)
    drain_timeout     = optional(string, "10s")
    interface         = optional(string)
    virtual_router_id = optional(number)
    install_packages  = optional(bool, true)
  })
  nullable = false

  validation {
    condition     = alltrue([for machine in var.machines : machine.address != var.endpoint.address])
    error_message = "The endpoint's address is a machine's: it has to be one that nobody has."
  }
}

variable "etcd" {
  description = <<-EOT
    etcd: a changed version restarts one member at a time, the leader last; so do changed flags and limits.
    snapshots are saved on a schedule, by the machine whose member leads, and brought elsewhere by the upload command; a change of them restarts nothing.
  EOT
  type = object({
    version        = optional(string, "3.6.16")
    extra_args     = optional(map(string), {})
    data_dir       = optional(string, "/var/lib/etcd")
    on_destroy     = optional(string, "archive")
    snapshots_kept = optional(number, 3)
    archives_kept  = optional(number, 5)
    snapshots = optional(object({
      schedule         = optional(string, "hourly")
      kept             = optional(number, 24)
      upload           = optional(string)
      environment_file = optional(string)
    }))
    resources = optional(object({ memory_high = optional(string), memory_max = optional(string), cpu_quota = optional(string) }))
  })
  default  = {}
  nullable = false
}

variable "kubernetes" {
  description = <<-EOT
    Kubernetes: a changed version takes one replica at a time out of rotation; so does everything else here but extra_sans and admin_conf. What audit, authentication and resources are by default, the guide on hardening tells.
    supplementary_groups are groups of the machines that may open the socket of a KMS plugin.
    members is which etcd members a replica uses: "own", the one on its machine where there is one and all of them where there is none; or "all" of them.
  EOT
  type = object({
    version = optional(string, "1.34.4")
    port    = optional(number, 6443)
    members = optional(string, "own")
    extra_args = optional(object({
      apiserver          = optional(map(string))
      controller_manager = optional(map(string))
      scheduler          = optional(map(string))
    }), {})
    extra_sans = optional(set(string), [])
    admin_conf = optional(bool, true)
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
      apiserver          = optional(object({ memory_high = optional(string), memory_max = optional(string), cpu_quota = optional(string) }))
      controller_manager = optional(object({ memory_high = optional(string), memory_max = optional(string), cpu_quota = optional(string) }))
      scheduler          = optional(object({ memory_high = optional(string), memory_max = optional(string), cpu_quota = optional(string) }))
    }))
    supplementary_groups = optional(set(string))
  })
  default  = {}
  nullable = false

  validation {
    condition     = contains(["own", "all"], var.kubernetes.members)
    error_message = "The members that a replica uses are \"own\" or \"all\"."
  }
}

variable "network" {
  description = "Address ranges of services and pods (two each for dual stack), and the cluster's DNS domain. Without pod ranges the network plugin allocates."
  type = object({
    service_cidrs  = optional(list(string), ["10.96.0.0/12"])
    pod_cidrs      = optional(list(string))
    cluster_domain = optional(string, "cluster.local")
  })
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for cidr in concat(var.network.service_cidrs, coalesce(var.network.pod_cidrs, [])) : can(cidrhost(cidr, 1))])
    error_message = "Every range is written as 10.96.0.0/12."
  }
}

variable "pki" {
  description = "Keys and certificates: whether the cluster is protected from being destroyed (set deletion_protection to false and apply, before you destroy it), the algorithm and life of what is made, encryption of Secrets at rest (provider \"secretbox\" or \"aescbc\", whose keys the bundle makes; or \"kms\" with the plugin's name and socket), and the stages of rotations: one number higher is one stage, an apply of its own."
  type = object({
    deletion_protection = optional(bool, true)
    key_algorithm       = optional(string, "ECDSA-P256")
    ca_validity         = optional(string, "87600h")
    early_renewal       = optional(string)
    encryption = optional(object({
      provider  = string
      resources = optional(list(string))
      kms       = optional(object({ name = string, endpoint = string, timeout = optional(string) }))
    }))
    rotation = optional(object({
      kubernetes      = optional(number)
      etcd            = optional(number)
      front_proxy     = optional(number)
      service_account = optional(number)
      encryption      = optional(number)
    }), {})
  })
  default  = {}
  nullable = false
}

variable "cluster_name" {
  description = "Name of the cluster."
  type        = string
  default     = "prod"
}

variable "deletion_protection" {
  description = "Whether the cluster is protected from being destroyed. Set it to false and apply before you destroy the cluster."
  type        = bool
  default     = true
}

variable "machines" {
  description = "Addresses of the machines, by name: three or five. Each has a separate disk mounted at /var/lib/etcd."
  type        = map(string)

  validation {
    condition     = length(var.machines) >= 3
    error_message = "At least three machines are needed to tolerate the loss of one."
  }
}

variable "endpoint_address" {
  description = "An unused address in the machines' network: the virtual IP of the API."
  type        = string
}

variable "login" {
  description = <<-EOT
    The OpenID Connect issuer of the tokens with which people log in: its URL, the audience (the client ID), and the claims with the name and the groups of a user.
    Both get the prefix, so that no user of the issuer can take the name of a user or group of the cluster.
    certificate_authority (PEM) verifies the certificate of the issuer. Default: the CAs that the machines trust.
  EOT
  type = object({
    issuer                = string
    audience              = string
    username_claim        = optional(string, "email")
    groups_claim          = optional(string, "groups")
    prefix                = optional(string, "login:")
    certificate_authority = optional(string)
  })

  validation {
    condition     = startswith(var.login.issuer, "https://")
    error_message = "The issuer must be an https URL."
  }
  validation {
    condition     = var.login.prefix != "" && !startswith(var.login.prefix, "system:")
    error_message = "The prefix must not be empty or begin with \"system:\". Use a prefix such as \"login:\"."
  }
}

variable "snapshot_upload" {
  description = <<-EOT
    Command that uploads an etcd snapshot. sh runs it on the machine that saved the snapshot, with SNAPSHOT (path), SNAPSHOT_NAME, CLUSTER and MEMBER in its environment.
    Example: rclone copyto "$SNAPSHOT" "backups:$CLUSTER/$SNAPSHOT_NAME"
  EOT
  type        = string
  nullable    = false

  validation {
    condition     = trimspace(var.snapshot_upload) != ""
    error_message = "A command must upload the snapshots: snapshots that stay on the machines are lost with them."
  }
}

variable "snapshot_fetch" {
  description = <<-EOT
    Command that fetches the newest uploaded snapshot to the path in SNAPSHOT, for a restore drill every three weeks. Set it when the first snapshot is uploaded. Default: no drill.
    Example: rclone copyto "backups:prod/$(rclone lsf backups:prod | sort | tail -n 1)" "$SNAPSHOT"
  EOT
  type        = string
  default     = null
}

variable "snapshot_environment_file" {
  description = "File on each machine with the credentials of the storage, in lines NAME=VALUE. systemd reads it; Terraform never does. Default: none."
  type        = string
  default     = null
}

variable "limits" {
  description = "Memory limits of the components. Measure first, and set twice what they need: a component that is killed for its limit restarts with the same load."
  type = object({
    etcd               = optional(object({ memory_max = string }), { memory_max = "12G" })
    apiserver          = optional(object({ memory_max = string }), { memory_max = "8G" })
    controller_manager = optional(object({ memory_max = string }), { memory_max = "2G" })
    scheduler          = optional(object({ memory_max = string }), { memory_max = "1G" })
  })
  default  = {}
  nullable = false
}

variable "accepted" {
  description = <<-EOT
    Items of the readiness review with which you live, while they are warnings or do not show on the machines.
    "certificates": whether an alert is there shows only if its PrometheusRule is in this cluster. Remove it if it is.
  EOT
  type        = set(string)
  default     = ["certificates"]
  nullable    = false
}

variable "seal_identity_file" {
  description = "File with the age identity that opens the private keys in state and plans (age-keygen -o seal.txt)."
  type        = string
}

variable "seal_recipients" {
  description = "Recipients that can open the private keys (age1…), including the identity's own. Add a second one whose identity is in a safe, in case the first one is lost. Default: only the identity's own."
  type        = list(string)
  default     = null
}

variable "ssh_user" {
  description = "User on the machines: root, or a user who can sudo without a password."
  type        = string
  default     = "root"
}

variable "ssh_private_key" {
  description = "Private SSH key for the machines; it is in no plan and no state. Default: the ssh-agent."
  type        = string
  default     = null
  sensitive   = true
  ephemeral   = true
}

variable "ssh_known_hosts" {
  description = "Host keys of the machines, in known_hosts format. Default: ~/.ssh/known_hosts."
  type        = string
  default     = null
}

variable "artifacts" {
  description = "Where the programs come from. Default: the upstream release locations."
  type = object({
    directory  = optional(string)
    etcd       = optional(object({ url = string, checksum_url = string }))
    kubernetes = optional(object({ url = string, checksum_url = string }))
  })
  default = null
}

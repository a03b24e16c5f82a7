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
  description = "Addresses of the machines, by name: three, or five. Each has a disk of its own mounted at /var/lib/etcd."
  type        = map(string)

  validation {
    condition     = length(var.machines) >= 3
    error_message = "Three machines, or five: with fewer none may fail."
  }
}

variable "endpoint_address" {
  description = "A free address in the machines' network: the virtual IP of the API."
  type        = string
}

variable "login" {
  description = <<-EOT
    The OpenID Connect issuer whose tokens log people in: its URL, the audience (the client's id there), and the claims that name a user and their groups.
    Both get the prefix, so that nobody there can take the name of a user or a group of the cluster.
    certificate_authority (PEM) is what the issuer's certificate is verified with; null: the authorities that the machines trust.
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
    error_message = "The issuer is an https URL."
  }
  validation {
    condition     = var.login.prefix != "" && !startswith(var.login.prefix, "system:")
    error_message = "A prefix that keeps the issuer's names apart from those of the cluster, such as \"login:\"."
  }
}

variable "snapshot_upload" {
  description = <<-EOT
    Command that brings a snapshot of etcd to storage elsewhere: for sh on the machine that saved it, with SNAPSHOT (path), SNAPSHOT_NAME, CLUSTER and MEMBER in its environment.
    Such as: rclone copyto "$SNAPSHOT" "backups:$CLUSTER/$SNAPSHOT_NAME"
  EOT
  type        = string
  nullable    = false

  validation {
    condition     = trimspace(var.snapshot_upload) != ""
    error_message = "Snapshots that stay on the machines are lost with them: a command has to bring them elsewhere."
  }
}

variable "snapshot_environment_file" {
  description = "File on each machine with credentials of that storage, as NAME=VALUE lines; null: none. Its content is read by systemd there, and never by Terraform."
  type        = string
  default     = null
}

variable "limits" {
  description = "What the components may take of each machine. Measure before, and leave twice what they need: one that is ended for its limit has the same load again when it starts."
  type = object({
    etcd               = optional(object({ memory_max = string }), { memory_max = "12G" })
    apiserver          = optional(object({ memory_max = string }), { memory_max = "8G" })
    controller_manager = optional(object({ memory_max = string }), { memory_max = "2G" })
    scheduler          = optional(object({ memory_max = string }), { memory_max = "1G" })
  })
  default  = {}
  nullable = false
}

variable "seal_identity_file" {
  description = "File with the age identity that opens the private keys in state and plan (age-keygen -o seal.txt)."
  type        = string
}

variable "seal_recipients" {
  description = "Who can open the private keys (age1…), the identity's own recipient among them; a second one, whose identity is in a safe, is the way back when the first one is lost. null: the identity's own alone."
  type        = list(string)
  default     = null
}

variable "ssh_user" {
  description = "User on the machines: root, or one who may sudo without a password."
  type        = string
  default     = "root"
}

variable "ssh_private_key" {
  description = "Private key that the machines let in; null uses the ssh-agent. No plan and no state has it."
  type        = string
  default     = null
  sensitive   = true
  ephemeral   = true
}

variable "ssh_known_hosts" {
  description = "The machines' host keys, in known_hosts format; null uses ~/.ssh/known_hosts."
  type        = string
  default     = null
}

variable "artifacts" {
  description = "Where the programs come from; null fetches upstream's releases."
  type = object({
    directory  = optional(string)
    etcd       = optional(object({ url = string, checksum_url = string }))
    kubernetes = optional(object({ url = string, checksum_url = string }))
  })
  default = null
}

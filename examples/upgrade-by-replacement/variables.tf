variable "slots" {
  description = "The generation whose machine fills each slot: the line to change, one slot at a time or several, but not all at once."
  type        = map(string)
  default     = { a = "1", b = "1", c = "1" }
}

variable "generations" {
  description = "What runs on the machines of a generation, and their addresses by slot. A generation is taken out when no slot has it any more."
  type = map(object({
    etcd       = string
    kubernetes = string
    machines   = map(string)
  }))
}

variable "balancers" {
  description = "Addresses of the machines that balance, by name."
  type        = map(string)
}

variable "endpoint_address" {
  description = "A free address in the machines' network: the virtual IP of the API."
  type        = string
}

variable "cluster_name" {
  description = "Name of the cluster."
  type        = string
  default     = "prod"
}

variable "deletion_protection" {
  description = "Whether the cluster is protected from being destroyed. It is not, because this is for trying out; leave it on for a cluster that matters."
  type        = bool
  default     = false
}

variable "drain_timeout" {
  description = "How long a replica that leaves rotation may keep its sessions."
  type        = string
  default     = "10s"
}

variable "ssh_user" {
  description = "User on the machines: root, or one who may sudo without a password."
  type        = string
  default     = "root"
}

variable "ssh_private_key" {
  description = "Private key that the machines let in; null uses the ssh-agent."
  type        = string
  default     = null
  sensitive   = true
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

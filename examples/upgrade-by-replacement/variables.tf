variable "slots" {
  description = "The generation whose machine fills each slot. Change one or several slots, but not all at once."
  type        = map(string)
  default     = { a = "1", b = "1", c = "1" }
}

variable "generations" {
  description = "The versions on the machines of a generation, and their addresses by slot. Remove a generation when no slot uses it."
  type = map(object({
    etcd       = string
    kubernetes = string
    machines   = map(string)
  }))
}

variable "balancers" {
  description = "Addresses of the balancers, by name."
  type        = map(string)
}

variable "endpoint_address" {
  description = "An unused address in the machines' network: the virtual IP of the API."
  type        = string
}

variable "cluster_name" {
  description = "Name of the cluster."
  type        = string
  default     = "prod"
}

variable "deletion_protection" {
  description = "Whether the cluster is protected from being destroyed. Default false, to try it out. Set it to true for a cluster that matters."
  type        = bool
  default     = false
}

variable "drain_timeout" {
  description = "How long a replica that leaves rotation can keep its sessions."
  type        = string
  default     = "10s"
}

variable "ssh_user" {
  description = "User on the machines: root, or a user who can sudo without a password."
  type        = string
  default     = "root"
}

variable "ssh_private_key" {
  description = "Private SSH key for the machines. Default: the ssh-agent."
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

variable "machines" {
  description = "The control-plane machines, by name: their addresses and zones. One or more in each of three zones, three or five in all."
  type        = map(object({ address = string, zone = string }))
}

variable "endpoint_address" {
  description = "IP address of the API, which nothing else has."
  type        = string
}

variable "asn" {
  description = "Autonomous system of the machines."
  type        = number
}

variable "routers" {
  description = "The router of each zone."
  type        = map(object({ address = string, asn = number, bfd = optional(bool, true) }))
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

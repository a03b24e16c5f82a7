variable "members" {
  description = "Addresses of etcd's machines, by name: three, or five."
  type        = map(string)
}

variable "replicas" {
  description = "Addresses of the replicas' machines, by name: two at least, if one may fail."
  type        = map(string)
}

variable "endpoint_address" {
  description = "A free address in the machines' network: the virtual IP of the API."
  type        = string
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

variable "machines" {
  description = "IPv4 addresses of the machines, by name: three or five. Each machine needs an IPv6 address, too."
  type        = map(string)
}

variable "endpoint_address" {
  description = "An unused IPv4 address in the machines' network: the virtual IP of the API."
  type        = string
}

variable "endpoint_address6" {
  description = "An unused IPv6 address in the machines' network: the second virtual IP of the API."
  type        = string
}

variable "service_cidrs" {
  description = "Address ranges of Services. The first has the family of the machines' addresses: Services get it if they request no family."
  type        = list(string)
  default     = ["10.96.0.0/12", "fd00:10:96::/112"]
}

variable "pod_cidrs" {
  description = "Address ranges of Pods."
  type        = list(string)
  default     = ["10.244.0.0/16", "fd00:10:244::/56"]
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

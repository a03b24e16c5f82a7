variable "machines" {
  description = "Addresses of the control-plane machines, by name: three or five."
  type        = map(string)
}

variable "endpoint_address" {
  description = "Unused IPv4 address in the machines' network."
  type        = string
}

variable "kube_vip_sha256" {
  description = "SHA-256 of kube-vip on the machines. Default: it is not checked."
  type        = string
  default     = null
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

variable "machines" {
  description = "Addresses of the machines with a replica, by name: two or more."
  type        = map(string)
}

variable "endpoint_address" {
  description = "IP address or DNS name of the balancer."
  type        = string
}

variable "health_check" {
  description = "How the balancer checks the machines: the time between two checks, the number of failed ones after which it sends no more requests, and the number of successful ones after which it sends them (healthy_threshold; by default the same)."
  type        = object({ interval = optional(string, "2s"), threshold = optional(number, 3), healthy_threshold = optional(number) })
  default     = {}
}

variable "etcd_urls" {
  description = "Client URLs of all etcd members."
  type        = list(string)
}

variable "etcd_ca_certificate" {
  description = "Certificate of the CA of etcd's servers and clients, PEM."
  type        = string
}

variable "etcd_client_certificates" {
  description = "The signed certificates of the requests in the output etcd_client_requests, PEM, by machine."
  type        = map(string)
  default     = {}
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

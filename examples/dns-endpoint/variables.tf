variable "machines" {
  description = "Addresses of the control-plane machines, by name: three or five."
  type        = map(string)
}

variable "endpoint_name" {
  description = "DNS name of the API, in the zone."
  type        = string
}

variable "zone" {
  description = "The zone that has the name."
  type        = string
}

variable "name_server" {
  description = "The zone's primary server: an IP address, or IP:port."
  type        = string
}

variable "name_servers" {
  description = "The name servers that resolvers ask. Default: those in the zone's NS records."
  type        = list(string)
  default     = null
}

variable "ttl" {
  description = "Time to live of the records. Each machine that leaves waits for that long."
  type        = string
  default     = "5s"
}

variable "tsig_key" {
  description = "Name of the key that may change the name's address records."
  type        = string
}

variable "tsig_secret" {
  description = "Secret of the key, base64. It is not in the state."
  type        = string
  sensitive   = true
  ephemeral   = true
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

variable "machines" {
  description = "Addresses of the control-plane machines, by name: three or five."
  type        = map(string)
}

variable "endpoint_address" {
  description = "IP address of the API, which nothing else has."
  type        = string
}

variable "asn" {
  description = "Autonomous system of the machines."
  type        = number
}

variable "peers" {
  description = "The routers that the machines announce the address to. password is a name in bgp_passwords."
  type        = list(object({ address = string, asn = number, multihop = optional(number), password = optional(string) }))
}

variable "bgp_passwords" {
  description = "Passwords of the sessions, by name. They are not in the state. Default: none."
  type        = map(string)
  default     = {}
  sensitive   = true
  ephemeral   = true
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

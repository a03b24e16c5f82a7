variable "machines" {
  description = "Addresses of the machines, by name: three or five."
  type        = map(string)
}

variable "endpoints" {
  description = <<-EOT
    The endpoints of the control plane, "virtual_ip" and "balancer". Kubeconfigs name the first one. To move from one to the other, list both and apply,
    give the new kubeconfig to the clients, and then list the new one alone.
  EOT
  type        = list(string)
  default     = ["virtual_ip"]

  validation {
    condition     = length(var.endpoints) > 0 && length(setsubtract(var.endpoints, ["virtual_ip", "balancer"])) == 0
    error_message = "endpoints must contain \"virtual_ip\", \"balancer\" or both."
  }
}

variable "endpoint_address" {
  description = "An unused address in the machines' network, for the endpoint \"virtual_ip\"."
  type        = string
}

variable "balancer" {
  description = "Address or name of a balancer that others look after, for the endpoint \"balancer\". It may be the same address, once it is the balancer's."
  type        = string
}

variable "hand_over" {
  description = "How the address moves, if both endpoints have the same one. To the endpoint \"virtual_ip\": \"prepare\" until the replicas are registered there, then \"take\", and null when it has the address. To the balancer: \"release\"."
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

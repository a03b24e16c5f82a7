variable "machines" {
  description = "Addresses of the control-plane machines, by name: three or five."
  type        = map(string)
}

variable "endpoint_address" {
  description = "An unused address in the machines' network: the virtual IP of the API."
  type        = string
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

variable "kubelet_config" {
  description = "Fields of a KubeletConfiguration for all workers, in YAML. Default: kubeadm's."
  type        = string
  default     = null
}

variable "coredns_image" {
  description = "Image of CoreDNS."
  type        = string
  default     = "registry.k8s.io/coredns/coredns:v1.14.2"
}

variable "dns_upstream" {
  description = "Where CoreDNS asks for other names: a file such as resolv.conf, or addresses."
  type        = string
  default     = "/etc/resolv.conf"
}

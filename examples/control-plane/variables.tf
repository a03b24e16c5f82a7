variable "machines" {
  description = "Addresses of the machines, by name: one, three or five."
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

variable "key_algorithm" {
  description = "Algorithm of every key."
  type        = string
  default     = "ECDSA-P256"
}

variable "seal_identity_file" {
  description = "File with the age identity that opens the private keys in the state. Default: none, and the keys are readable."
  type        = string
  default     = null
}

variable "seal_recipients" {
  description = "Recipients that can open the private keys in the state (age1…). Default: the identity's own."
  type        = list(string)
  default     = null
}

variable "rotation" {
  description = "Stages of rotations. Raising a number by one is one stage."
  type = object({
    kubernetes      = optional(number)
    etcd            = optional(number)
    front_proxy     = optional(number)
    service_account = optional(number)
    encryption      = optional(number)
  })
  default = {}
}

variable "encryption" {
  description = "How Secrets are encrypted in etcd. Default: not at all."
  type = object({
    provider  = string
    resources = optional(list(string))
  })
  default = null
}

variable "ssh_user" {
  description = "User on the machines: root, or a user who can sudo without a password."
  type        = string
  default     = "root"
}

variable "ssh_private_key" {
  description = "Private SSH key for the machines. Default: the ssh-agent. It is in no saved plan."
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

variable "etcd_version" {
  description = "Version of etcd."
  type        = string
  default     = "3.6.16"
}

variable "kubernetes_version" {
  description = "Version of Kubernetes."
  type        = string
  default     = "1.36.3"
}

variable "service_cidrs" {
  description = "Address range of Services; two for dual stack. The first has the family of the machines' addresses."
  type        = list(string)
  default     = ["10.96.0.0/12"]
}

variable "pod_cidrs" {
  description = "Address range of Pods; null leaves it to the network plugin."
  type        = list(string)
  default     = ["10.244.0.0/16"]
}

variable "drain_timeout" {
  description = "How long a replica that leaves rotation can keep its sessions."
  type        = string
  default     = "10s"
}

variable "etcd_extra_args" {
  description = "Additional flags of etcd."
  type        = map(string)
  default     = {}
}

variable "apiserver_extra_args" {
  description = "Additional flags of kube-apiserver."
  type        = map(string)
  default     = {}
}

variable "machines" {
  description = "Addresses of the machines, by name: three or five."
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

variable "credentials_directory" {
  description = "Directory on Prometheus' machine that has ca.crt, client.crt and client.key, and the same of etcd (etcd-ca.crt, …): see the outputs."
  type        = string
  default     = "/etc/prometheus/kube"
}

variable "textfile_directory" {
  description = "Directory of the textfile collector of node_exporter on the machines. The default is that of Debian's prometheus-node-exporter."
  type        = string
  default     = "/var/lib/prometheus/node-exporter"
}

variable "wait_factor" {
  description = "How much longer (2) or shorter (0.5) alerts wait before they fire."
  type        = number
  default     = 1
}

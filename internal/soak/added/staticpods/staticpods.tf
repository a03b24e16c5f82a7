variable "runtimes" {
  description = "What runs members and replicas, by machine. Default: systemd."
  type        = map(string)
  default     = {}
}

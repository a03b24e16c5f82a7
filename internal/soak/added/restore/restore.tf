variable "restore" {
  description = "What etcd is restored from. Default: nothing."
  type        = object({ id = string, snapshot = optional(string), member = optional(string) })
  default     = null
}

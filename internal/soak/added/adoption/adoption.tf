# What kubeadm has created is imported. Afterwards, these blocks change nothing.

import {
  to = kube_pki_bundle.this
  id = values(var.machines)[0]
}

import {
  for_each = var.machines
  to       = kube_etcd_member.this[each.key]
  id       = each.value
}

import {
  for_each = var.machines
  to       = kube_control_plane_replica.this[each.key]
  id       = each.value
}

variable "hooks" {
  description = "Commands that change the balancer. Default: none."
  type        = object({ register = list(string), drain = list(string), deregister = list(string), status = list(string) })
  default     = null
}

variable "early_renewal" {
  description = "How long before its end a certificate is renewed. Default: that of the provider."
  type        = string
  default     = null
}

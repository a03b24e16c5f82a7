import {
  to = kube_etcd_member.prod["cp1"]
  identity = {
    address = "10.0.0.11"
  }
}

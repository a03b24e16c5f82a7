# Removes the address from a host that leaves the endpoint.
unless_other
systemctl stop kube-endpoint-keepalived.service 2>/dev/null || true

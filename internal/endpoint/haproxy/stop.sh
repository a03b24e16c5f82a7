# Removes the address from a host that leaves the endpoint, or stops listening for a moment.
unless_other
systemctl stop kube-endpoint-keepalived.service 2>/dev/null || true

# Fails if the member or the API server at $address is unhealthy.
set -e
etcdctl endpoint health
curl --silent --insecure --fail --max-time 5 "https://$address:6443/readyz"

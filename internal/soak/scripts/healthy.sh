# Fails when the member or the API server at $address is not healthy.
set -e
etcdctl endpoint health
curl --silent --insecure --fail --max-time 5 "https://$address:6443/readyz"

# Fails if a component of the replica at $address is unhealthy, or if the API does not answer at $vip.
set -e
for url in "https://$address:6443/readyz" https://127.0.0.1:10257/healthz https://127.0.0.1:10259/readyz "https://$vip:6443/readyz"; do
  curl --silent --show-error --insecure --fail --max-time 5 --output /dev/null "$url" || { echo "$url"; exit 1; }
done

# Revokes a claim: removes the record of a machine that has nothing else.
if [ -d "$config" ] && lock && [ "$(whose)" = ours ] && [ ! -e "$config/10-endpoint.cfg" ]; then
  rm -f "$config/endpoint.json"
  rmdir --ignore-fail-on-non-empty "$config"
  rmdir --ignore-fail-on-non-empty /etc/haproxy
  flush "$config"
fi

# Puts the replica into rotation: the health check announces the address when its API server is ready.
if [ ! -d "$config" ]; then
  echo absent
  exit 0
fi
lock
unless_other
if [ "$(whose)" = none ] || [ ! -e "$config/bird.conf" ]; then
  echo absent
  exit 0
fi
if [ ! -e "$config/registered" ]; then
  : >"$config/registered"
  flush "$config/registered" "$config"
fi
echo ours

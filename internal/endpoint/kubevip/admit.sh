# Puts the replica into rotation: the agent starts kube-vip when its API server is ready. Go sets agent.
if [ ! -d "$config" ]; then
  echo absent
  exit 0
fi
lock
unless_other
if [ "$(whose)" = none ] || [ ! -e "$agent" ]; then
  echo absent
  exit 0
fi
if [ ! -e "$config/registered" ]; then
  : >"$config/registered"
  chmod 644 "$config/registered"
  flush "$config/registered" "$config"
fi
echo ours

# Lets the agent add this machine's record again, if there is an agent. Go sets config.
if [ -d "$config" ]; then
  : >"$config/registered"
  flush "$config/registered" "$config"
  echo there
fi

# Keeps the agent from adding this machine's record. A round of the agent that has begun ends first.
# Go sets config and state.
[ -d "$config" ] || exit 0
mkdir -p "$state"
exec 9>"$state/lock"
flock 9
rm -f "$config/registered"
flush "$config"

# The first program of a machine: runs in new mount and network namespaces, joins the
# machine's cgroups, mounts its disk, connects its network and becomes systemd-nspawn. All
# of it disappears with the machine's last process, so a power cut leaves nothing to clean
# up.
for procs in $CGROUP_PROCS; do echo $$ > "$procs"; done

mount -t overlay overlay -o "lowerdir=$BASE,upperdir=$DISK/upper,workdir=$DISK/work" "$ROOT"

ip -n "$LAB_NETNS" link del dev "$MACHINE" 2>/dev/null || true
ip link add dev eth0 address "$MAC" type veth peer name "$MACHINE" netns "$LAB_NETNS"
ip -n "$LAB_NETNS" link set dev "$MACHINE" master "$BRIDGE" up
ip link set dev lo up
ip addr add "$ADDRESS" dev eth0
ip link set dev eth0 up
ip route replace "$SUBNET" dev eth0 proto kernel scope link src "${ADDRESS%/*}" quickack 1

export SYSTEMD_NSPAWN_API_VFS_WRITABLE=1
exec systemd-nspawn --boot --register=no --keep-unit --quiet --console=read-only \
  --directory="$ROOT" --machine="$ID" --hostname="$MACHINE" --resolv-conf=off \
  --network-namespace-path=/proc/self/ns/net --capability=all

# The first program of a machine: runs in new mount and network namespaces, joins the
# machine's cgroups, mounts its disk, connects its network and becomes systemd-nspawn. All
# of it disappears with the machine's last process, so a machine that is killed leaves
# nothing to clean up.
for procs in $CGROUP_PROCS; do echo $$ > "$procs"; done

# An image is mounted over the directory that it was made from. What is not flushed stays in
# memory for minutes (commit), also if a rename or a truncation replaces a file
# (noauto_da_alloc): otherwise a missing flush would often make no difference. A flush goes
# to the image, not to this computer's own disk (nobarrier), whose power is not cut.
if [ -e "$DISK.img" ]; then
  hosts=$(cat "$DISK/upper/etc/hosts")
  mount -t ext4 -o loop,commit=900,noauto_da_alloc,nobarrier,noinit_itable "$DISK.img" "$DISK"
  printf '%s\n' "$hosts" >"$DISK/upper/etc/hosts"
  mkdir -p "$DISK/upper/etc/dpkg/dpkg.cfg.d" # dpkg flushes, unlike on the other machines
  : >"$DISK/upper/etc/dpkg/dpkg.cfg.d/kube-lab"
fi
mount -t overlay overlay -o "lowerdir=$BASE,upperdir=$DISK/upper,workdir=$DISK/work" "$ROOT"

ip -n "$LAB_NETNS" link del dev "$MACHINE" 2>/dev/null || true
ip link add dev eth0 address "$MAC" type veth peer name "$MACHINE" netns "$LAB_NETNS"
ip -n "$LAB_NETNS" link set dev "$MACHINE" master "$BRIDGE" up
ip link set dev lo up
if [ -n "$ADDRESS6" ]; then # nobody waits for the detection of duplicates
  echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad
  ip addr add "$ADDRESS6" dev eth0 nodad
fi
if [ -n "$ADDRESS" ]; then ip addr add "$ADDRESS" dev eth0; fi
ip link set dev eth0 up
if [ -n "$ADDRESS" ]; then
  ip route replace "$SUBNET" dev eth0 proto kernel scope link src "${ADDRESS%/*}" quickack 1
fi
if [ -n "$ADDRESS6" ]; then ip route replace "$SUBNET6" dev eth0 proto kernel metric 256 quickack 1; fi

# Containers within the machine: an overlay on an overlay is not possible, so what has layers is a directory
# of this computer. The kubelet reads /dev/kmsg, and runc needs keys and BPF.
set --
if [ -d "$CONTAINERS" ]; then
  mkdir -p "$CONTAINERS/containerd" "$CONTAINERS/kubelet"
  set -- --bind="$CONTAINERS/containerd:/var/lib/containerd" --bind="$CONTAINERS/kubelet:/var/lib/kubelet" \
    --bind=/dev/kmsg --system-call-filter='add_key keyctl bpf @privileged'
fi

export SYSTEMD_NSPAWN_API_VFS_WRITABLE=1
exec systemd-nspawn "$@" --boot --register=no --keep-unit --quiet --console=read-only \
  --directory="$ROOT" --machine="$ID" --hostname="$MACHINE" --resolv-conf=off \
  --network-namespace-path=/proc/self/ns/net --capability=all

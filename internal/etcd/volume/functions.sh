# The volume of an etcd member. $device or $uuid names it, and $mount is where it is mounted. $volume and $copies are
# set by find_volume, $kind by probe_volume.

# find_volume sets $volume to the block device. It fails if the machine does not have it. A name that is read from the
# content of a disk is also that of its copies: if none of these is mounted in place, $copies has the others.
find_volume() {
  tag=''
  tagged=$uuid
  volume=''
  copies=''
  if [ -n "$uuid" ]; then
    tag=UUID
  else
    volume=$(readlink -f -- "$device" 2>/dev/null || true)
    case $device in
    /dev/disk/by-uuid/*) tag=UUID ;;
    /dev/disk/by-label/*) tag=LABEL ;;
    /dev/disk/by-partuuid/*) tag=PARTUUID ;;
    /dev/disk/by-partlabel/*) tag=PARTLABEL ;;
    esac
    [ -z "$tag" ] || tagged=$(blkid -c /dev/null -o value -s "$tag" -- "$volume" 2>/dev/null || true)
  fi
  if [ -n "$tag" ] && [ -n "$tagged" ]; then
    named=$(disks_with "$tag" "$tagged")
    volume=${named%%[[:space:]]*}
    [ "$named" = "$volume" ] || copies=$(printf '%s\n' "$named" | tail -n +2 | paste -sd ' ' -)
  fi
  is_device "$volume"
}

is_device() { [ -b "$1" ]; }

# disks_with TAG VALUE: prints the block devices on which blkid reads it, one for each disk, and none below another
# device, such as those of a multipath device. If one is mounted in place, it prints that one only.
disks_with() (
  devices=$(blkid -c /dev/null -t "$1=$2" -o device 2>/dev/null || true)
  placed=$(mounted_here)
  for one in $devices; do
    if is_device "$one" && [ "$(number_of "$one")" = "$placed" ]; then
      echo "$one"
      exit
    fi
  done
  seen=''
  for one in $devices; do
    if ! is_device "$one" || held "$one"; then continue; fi
    disk=$(disk_of "$one")
    case "$seen " in *" $disk "*) continue ;; esac
    seen="$seen $disk"
    echo "$one"
  done
)

# Where the kernel describes block devices by their numbers.
blocks=/sys/dev/block

# block_of DEVICE: prints the directory that describes it, whose name is the kernel's.
block_of() { readlink -f -- "$blocks/$(number_of "$1")"; }

# held DEVICE: reports whether another device is made of it, or of the disk whose partition it is.
held() {
  block=$(block_of "$1")
  [ -n "$(ls -A -- "$block/holders" 2>/dev/null)" ] ||
    { [ -e "$block/partition" ] && [ -n "$(ls -A -- "${block%/*}/holders" 2>/dev/null)" ]; }
}

# disk_of DEVICE: prints what tells disks apart, as one word: two paths to one disk have the same worldwide name.
disk_of() {
  block=$(block_of "$1")
  part=''
  whole=$block
  if [ -e "$block/partition" ]; then
    part=$(cat "$block/partition")
    whole=${block%/*}
  fi
  wwid=$(cat "$whole/device/wwid" "$whole/wwid" 2>/dev/null | grep -xE '(naa|eui|uuid)\.[0-9A-Fa-f-]+' |
    grep -vxE '[a-z]+\.[0-]+' | head -n 1 || true)
  printf '%s\n' "${wwid:-${block##*/}}/${part:-0}"
}

# one_volume fails if it is not known which disk is the volume: a copy has an older log of the member.
one_volume() {
  [ -z "$copies" ] || {
    echo "${device:-UUID $uuid} names more than one disk: $volume and $copies are copies of each other:" \
      "detach those that are not the member's volume" >&2
    exit 1
  }
}

# number_of DEVICE: prints the kernel's number of a block device, as in /proc/self/mountinfo.
number_of() {
  printf '%d:%d\n' "0x$(stat -L -c %t -- "$1")" "0x$(stat -L -c %T -- "$1")"
}

# mounted_here: prints the number of the device that is mounted at $mount.
mounted_here() { awk -v at="$mount" '$5 == at { n = $3 } END { if (n) print n }' /proc/self/mountinfo; }

# in_place: reports whether the volume is what is mounted at $mount.
in_place() { [ "$(mounted_here)" = "$(number_of "$volume")" ]; }

# users_of_volume: prints "PID PLACE HOW" for the mounts of the volume in other mount namespaces than this one, and
# "here PLACE HOW" for those in this one that are not at $mount. Those of peek are read-only and short.
users_of_volume() {
  awk -v n="$(number_of "$volume")" -v at="$mount" '$3 == n && $5 != at {
    $1 = $2 = $3 = $4 = ""; sub(/^ +/, ""); print "here " $0
  }' /proc/self/mountinfo
  own=$(readlink /proc/self/ns/mnt)
  { grep -sHE "^[0-9]+ [0-9]+ $(number_of "$volume") " /proc/[0-9]*/mountinfo || true; } |
    sed 's|^/proc/\([0-9]*\)/mountinfo:|\1 |' | while read -r pid _ _ _ _ place how; do
      of=$(readlink "/proc/$pid/ns/mnt" 2>/dev/null) || continue # it has ended
      [ "$of" != "$own" ] || continue
      grep -qs ' /run/kube-volume\.' "/proc/$pid/mountinfo" || printf '%s %s %s\n' "$pid" "$place" "$how"
    done
}

# stuck_on_volume: prints the first of these that stays when etcd stops and $mount is unmounted: nothing is propagated
# there.
stuck_on_volume() {
  users_of_volume | while read -r pid place how; do
    case " $how" in *' master:'* | *' shared:'*) [ "$pid" = here ] || continue ;; esac
    ! grep -qs '/etcd\.service$' "/proc/$pid/cgroup" || continue
    printf '%s %s\n' "$pid" "$place"
    break
  done
}

# place_of USER: describes a line of these.
place_of() {
  case $1 in
  here*) echo "it is also mounted at ${1#* }: unmount it there" ;;
  *)
    set -- "${1%% *}" "${1#* }"
    echo "process $1 has it mounted at $2, in its mount namespace: systemctl status $1 says what it is"
    ;;
  esac
}

# probe_volume sets $kind to what is on the volume: the type of its file system, "nothing", or something else.
probe_volume() {
  status=0
  found=$(blkid -p -o value -s TYPE -- "$volume" 2>/dev/null) || status=$?
  kind=${found:-nothing}
  if [ -n "$found" ] || [ "$(blkid -p -o value -s USAGE -- "$volume" 2>/dev/null)" = raid ]; then return; fi
  parts=$(blkid -p -o value -s PTTYPE -- "$volume" 2>/dev/null || true)
  if [ -n "$parts" ]; then
    kind=partitions
  elif [ "$status" -ne 2 ] || [ -n "$(wipefs -n -- "$volume" 2>/dev/null)" ]; then
    kind=unclear
  elif ! cmp -s -n 1048576 -- "$volume" /dev/zero; then
    kind=data
  fi
}

# damaged: reports whether the kernel has found an error in the ext4 file system on the volume, which stays so until
# e2fsck has looked at it. $kind is known.
damaged() {
  [ "$kind" = ext4 ] && LC_ALL=C dumpe2fs -h -- "$volume" 2>/dev/null | grep -q '^Filesystem state:.* with errors'
}

# $look prints the identity in the directory $1, or how many other files it has. A volume comes from another machine: a
# link or a pipe in place of the identity is not followed.
# shellcheck disable=SC2016 # another shell expands it
look='if [ -L "$1/kube-etcd-member.json" ] || [ -e "$1/kube-etcd-member.json" ]; then
  if [ -L "$1/kube-etcd-member.json" ] || [ ! -f "$1/kube-etcd-member.json" ]; then echo "identity -"; exit; fi
  echo "identity $(head -c 16384 "$1/kube-etcd-member.json" | base64 -w 0)"
else
  echo "files $(find "$1" -mindepth 1 -maxdepth 1 ! -name lost+found | wc -l)"
fi'

# peek: prints the identity on a volume that is not mounted, or how many other files it has. It does not write to the
# volume, not even its log, because another machine may use it.
peek() {
  case $kind in
  ext4) how=ro,noload,errors=continue ;; # a volume that another machine writes to may look damaged
  xfs) how=ro,norecovery,nouuid ;;
  *) return 0 ;;
  esac
  blockdev --flushbufs -- "$volume" 2>/dev/null || true
  place=$(mktemp -d /run/kube-volume.XXXXXX)
  # shellcheck disable=SC2016 # the inner shell expands it
  unshare --mount --propagation private sh -c 'mount -t "$1" -o "$2" -- "$3" "$4" || exit 0
    echo readable
    exec sh -c "$5" look "$4"' peek "$kind" "$how" "$volume" "$place" "$look" 2>/dev/null || true
  rmdir "$place"
}

# stage_identity TEXT: writes an identity beside the present one.
stage_identity() {
  in_place || { echo "$mount is not the volume any more" >&2; exit 1; }
  rm -rf -- "$mount/.kube-etcd-member.new" # it may be a link
  printf '%s' "$1" >"$mount/.kube-etcd-member.new" || {
    rm -f -- "$mount/.kube-etcd-member.new"
    echo "the volume cannot be written: $(df -B1 --output=avail -- "$mount" | tail -n 1) bytes are left at $mount" >&2
    exit 1
  }
  chmod 0644 "$mount/.kube-etcd-member.new"
  sync "$mount/.kube-etcd-member.new"
}

# write_identity TEXT: replaces the identity. A power cut leaves the old or the new one.
write_identity() {
  stage_identity "$1"
  mv -fT "$mount/.kube-etcd-member.new" "$mount/kube-etcd-member.json"
  sync "$mount"
}

mount_volume() {
  mkdir -p "$mount"
  mount -o noatime,nodev,nosuid,noexec -- "$volume" "$mount"
}

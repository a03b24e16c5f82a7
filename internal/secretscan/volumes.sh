# Sets $volumes to the mount points of members' volumes, which no search with -xdev enters.
# shellcheck disable=SC2034 # the rest of the script uses it
volumes=$(while read -r _ place _; do
  [ -z "$(find "$place" -maxdepth 1 -name '*kube-etcd-member.json*' 2>/dev/null)" ] || echo "$place"
done </proc/mounts)

# Prints the file system of cgroups: cgroup2fs if there is one tree.
printf 'cgroup\t%s\n' "$(stat -f -c %T /sys/fs/cgroup 2>/dev/null)"

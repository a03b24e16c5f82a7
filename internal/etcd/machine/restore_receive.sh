# Stores standard input as the snapshot of a restore.
umask 077
mkdir -p "$root"
cat >"$root/restoring.received"

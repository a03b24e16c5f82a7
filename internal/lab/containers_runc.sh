# Puts a program in front of runc, which the machine does not have yet: this computer may not lower the score by which
# processes are killed when memory is short, and runc fails if it shall.
set -eu
cat > /usr/local/sbin/runc <<'SCRIPT'
#!/bin/sh
bundle=.
previous=
for argument; do
  case $previous in --bundle | -b) bundle=$argument ;; esac
  previous=$argument
done
[ ! -f "$bundle/config.json" ] || sed -i 's/"oomScoreAdj":-[0-9]*/"oomScoreAdj":0/' "$bundle/config.json"
exec /usr/sbin/runc "$@"
SCRIPT
chmod 755 /usr/local/sbin/runc
chmod 700 /var/lib/containerd # a file system of its own, which containerd gives this mode

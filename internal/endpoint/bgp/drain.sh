# Takes the replica out of rotation: withdraws the address, and keeps it so after a restart of the
# machine.
if [ ! -d "$config" ]; then
  echo absent
  exit 0
fi
lock
unless_other
rm -f "$config/registered"
flush "$config"
withdraw
echo ours

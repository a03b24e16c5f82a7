# Ends a takeover from a static pod: clients reach the machine by the endpoint's own kube-vip. The kubelet does not get
# the manifest back any more, and a copy of it stays.
if [ ! -d "$config" ]; then
  echo absent
  exit 0
fi
lock
unless_other
for former in "$config"/inherited/*.pending; do
  [ -e "$former" ] || continue
  mv "$former" "${former%.pending}"
done
flush "$config/inherited"
echo ours

# Removes the endpoint from the machine, unless the machine has another one. The address
# is removed first, so that clients find the next holder before this HAProxy stops. The
# record is removed last, so that no other process begins before everything is done.
# shellcheck disable=SC2086 # $brought is a list of words
until mkdir -p "$config" && lock; do :; done
unless_other

for unit in kube-endpoint-keepalived.service kube-endpoint-haproxy.service; do
  if systemctl cat "$unit" >/dev/null 2>&1; then
    systemctl stop "$unit"
    systemctl reset-failed "$unit" 2>/dev/null || true
  fi
  rm -f "/etc/systemd/system/$unit" "/etc/systemd/system/multi-user.target.wants/$unit"
  rm -f "/etc/systemd/system/.$unit.kube-"* "/etc/systemd/system/multi-user.target.wants/.$unit.kube-"*
done
systemctl daemon-reload
rm -rf /opt/kube/endpoint
rm -f /etc/keepalived/kube.conf /etc/keepalived/.kube.conf.kube-* /run/kube-endpoint-haproxy.stopped
rmdir --ignore-fail-on-non-empty /opt/kube 2>/dev/null || true

# Only packages that the endpoint installed are removed, and of these only packages that
# nothing else requires by now: dpkg and rpm refuse to break another package. If the
# installation was interrupted, these are the packages that it installed until then.
brought=$(brought)
if [ -n "$brought" ]; then
  again=''
  if [ -e "$state/installing" ] || [ -e "$state/purging" ]; then again=yes; fi
  : >"$state/purging"
  if command -v dpkg >/dev/null; then
    dpkg --force-remove-reinstreq --purge $brought >"$state/log" 2>&1 || true
    # An interrupted run leaves triggers of other packages pending.
    [ -z "$again" ] || dpkg --force-confold --configure -a >"$state/log" 2>&1 || true
  else
    rpm -e $brought >"$state/log" 2>&1 || true
  fi
fi
rm -rf "$state"
rm -rf "$config"
for directory in /etc/haproxy /etc/keepalived; do
  rmdir --ignore-fail-on-non-empty "$directory" 2>/dev/null || true
done
flush_packages
systemctl daemon-reload

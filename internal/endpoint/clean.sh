# Takes the endpoint off the machine, unless the machine has another one. The
# address goes first, so that clients find the next holder before this HAProxy
# ends; the record goes last, so that nobody else begins before all is done.
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

# Only what the endpoint brought goes, and of that only what nothing else has
# come to need: dpkg and rpm refuse to break another package. Of an installation
# that was cut off that is what it has come to.
brought=$(brought)
if [ -n "$brought" ]; then
  again=''
  if [ -e "$state/installing" ] || [ -e "$state/purging" ]; then again=yes; fi
  : >"$state/purging"
  if command -v dpkg >/dev/null; then
    dpkg --force-remove-reinstreq --purge $brought >"$state/log" 2>&1 || true
    # What was cut off leaves triggers of other packages undone.
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
systemctl daemon-reload

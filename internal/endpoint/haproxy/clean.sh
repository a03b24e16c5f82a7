# Removes the endpoint from the machine, unless the machine has another one. The address
# is removed first, so that clients find the next holder before this HAProxy stops. The
# record is removed last, so that no other process begins before everything is done.
create_and_lock
unless_other

for unit in kube-endpoint-facts.timer kube-endpoint-facts.service kube-endpoint-liveness.timer \
  kube-endpoint-liveness.service; do
  systemctl stop "$unit" 2>/dev/null || true
  systemctl reset-failed "$unit" 2>/dev/null || true
  rm -f "/etc/systemd/system/$unit" "/etc/systemd/system/timers.target.wants/$unit"
done
rm -f /var/lib/systemd/timers/stamp-kube-endpoint-facts.timer /var/lib/systemd/timers/stamp-kube-endpoint-liveness.timer
rmdir /etc/systemd/system/timers.target.wants 2>/dev/null || true
[ ! -e /opt/kube/endpoint/facts.sh ] || /bin/sh /opt/kube/endpoint/facts.sh remove || true

for unit in kube-endpoint-watch.service kube-endpoint-keepalived.service kube-endpoint-haproxy.service; do
  if systemctl cat "$unit" >/dev/null 2>&1; then
    systemctl stop "$unit"
    systemctl reset-failed "$unit" 2>/dev/null || true
  fi
  rm -f "/etc/systemd/system/$unit" "/etc/systemd/system/multi-user.target.wants/$unit"
  rm -f "/etc/systemd/system/.$unit.kube-"* "/etc/systemd/system/multi-user.target.wants/.$unit.kube-"*
done
rm -f /run/systemd/system/haproxy.service.d/kube-endpoint.conf /run/systemd/system/keepalived.service.d/kube-endpoint.conf
rmdir /run/systemd/system/haproxy.service.d /run/systemd/system/keepalived.service.d 2>/dev/null || true
systemctl daemon-reload
rm -rf /opt/kube/endpoint
rm -f /etc/keepalived/kube.conf /etc/keepalived/.kube.conf.kube-* /run/kube-endpoint-haproxy.stopped
rm -rf /run/kube-endpoint-liveness
rmdir --ignore-fail-on-non-empty /opt/kube 2>/dev/null || true

remove_packages
rm -rf "$config"
for directory in /etc/haproxy /etc/keepalived; do
  rmdir --ignore-fail-on-non-empty "$directory" 2>/dev/null || true
done
flush_packages
systemctl daemon-reload

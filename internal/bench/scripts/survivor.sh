# Waits until the machine's member has run for eleven seconds: a survivor that has just started is first given time to
# hear of others.
settled() {
  began=$(date -d "$(systemctl show --property=ActiveEnterTimestamp --value etcd)" +%s)
  [ "$(($(date +%s) - began))" -ge 11 ]
}
until settled; do sleep 0.2; done

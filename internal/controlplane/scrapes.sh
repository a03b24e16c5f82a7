# argument NAME FLAG: prints the value of a flag of a component's process, which a unit or a static pod runs.
argument() {
  pid=$(systemctl show --property=MainPID --value "$1.service")
  [ "${pid:-0}" -gt 0 ] || pid=$(replica_pid "$1")
  [ "${pid:-0}" -gt 0 ] || return 0
  tr '\0' '\n' <"/proc/$pid/cmdline" | sed -n "s/^--$2=//p" | tail -n 1
}

# port NAME DEFAULT: prints the port at which a component serves.
port() {
  value=$(argument "$1" secure-port)
  case ${value:-$2} in *[!0-9]*) ;; *) echo "${value:-$2}" ;; esac
}

# scraped USER: prints the last request for the API server's metrics in the newest part of its audit log, of anybody but
# USER, which is the provider.
scraped() {
  log=$(argument kube-apiserver audit-log-path)
  if [ ! -f "$log" ]; then
    printf 'scraped\tnone\n'
    return
  fi
  printf 'scraped\t%s\n' "$(tail -c 33554432 "$log" | grep -F '"requestURI":"/metrics"' | grep -F '"code":200' |
    grep -vF "\"username\":\"$1\"" | tail -n 1 | head -c 65536 | base64 -w 0)"
}

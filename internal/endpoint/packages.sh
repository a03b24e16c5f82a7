# listed prints the packages of which something is on the machine, half-installed
# ones included.
listed() {
  if command -v dpkg-query >/dev/null; then
    dpkg-query -W -f '${db:Status-Status} ${Package}\n' | sed -nE '/^(not-installed|config-files) /!s/^[^ ]+ //p' | sort -u
  else
    rpm -qa --qf '%{NAME}\n' | sort -u
  fi
}

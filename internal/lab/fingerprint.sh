# Lists the state of a machine as an operator would define it: files, users, packages,
# enabled units, addresses, listening ports. It excludes internal files of the package
# manager and of systemd, locks and new files of programs that were killed (shadow-utils
# has the process in the name of a lock), and the archived data that a destroyed member leaves on
# purpose.
{
  find /etc /opt /usr/local /var/lib /var/log /root -xdev \
    -not -path '/etc/ssl/*' -not -path '/var/lib/apt/*' -not -path '/var/lib/dpkg/*' -not -path '/var/lib/systemd/*' -not -path '/var/lib/ucf/*' \
    -not -path '/var/log/*' -not -path '/var/lib/etcd-archive*' -not -name '.pwd.lock' -not -name '*-' \
    -not -regex '/etc/\(passwd\|shadow\|group\|gshadow\)\(\.[0-9]+\|[+]\)' \
    -printf 'file %p %y %m %u %g\n'
  cut -d: -f1 /etc/passwd | sed 's/^/user /'
  cut -d: -f1 /etc/group | sed 's/^/group /'
  dpkg-query -W -f='package ${Package} ${Status}\n' | grep ' installed$'
  systemctl list-unit-files --no-legend --state=enabled,masked | awk '{print "unit", $1, $2}'
  systemctl list-units --no-legend --plain --state=failed | awk '{print "failed", $1}'
  ip -o addr | awk '{print "address", $2, $4}'
  ss -Hlnt | awk '{print "listens", $4}'
} | sort -u

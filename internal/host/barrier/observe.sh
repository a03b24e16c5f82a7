# Prints what firewalld and SELinux say, one KEY<TAB>VALUE per line, and what firewall-cmd prints with
# a tab before. Go sets address, the machine's own, and booleans, names of SELinux.
# shellcheck disable=SC2086 # $services is a list of words
set +eu
enforce=''
read -r enforce 2>/dev/null </sys/fs/selinux/enforce
if [ "$enforce" = 1 ]; then
  printf 'selinux\tenforcing\n'
  for name in $booleans; do
    current=''
    read -r current _ 2>/dev/null <"/sys/fs/selinux/booleans/$name"
    [ -z "$current" ] || printf 'boolean\t%s\t%s\n' "$name" "$current"
  done
  # Ports that the administrator has labelled.
  cat /var/lib/selinux/*/active/ports.local /etc/selinux/*/active/ports.local 2>/dev/null |
    while IFS= read -r line; do printf 'portcon\t%s\n' "$line"; done
fi
command -v firewall-cmd >/dev/null || exit 0
[ "$(firewall-cmd --state 2>/dev/null)" = running ] || exit 0
default=$(firewall-cmd --get-default-zone)
printf 'default\t%s\n' "$default"
ip -o address show to "$address" | while read -r _ device _; do printf 'device\t%s\n' "$device"; done
services=''
zones=$({ echo "$default"; firewall-cmd --get-active-zones | sed -n 's/^\([^ ][^ ]*\).*/\1/p'; } | sort -u)
for zone in $zones; do
  printf 'zone\t%s\n' "$zone"
  firewall-cmd --info-zone="$zone" | while IFS= read -r line; do printf '\t%s\n' "$line"; done
  services="$services $(firewall-cmd --zone="$zone" --list-services)"
done
for policy in $(firewall-cmd --get-active-policies 2>/dev/null | sed -n 's/^\([^ ][^ ]*\).*/\1/p'); do
  printf 'policy\t%s\n' "$policy"
  firewall-cmd --info-policy="$policy" | while IFS= read -r line; do printf '\t%s\n' "$line"; done
  services="$services $(firewall-cmd --policy="$policy" --list-services)"
done
for service in $(printf '%s\n' $services | sort -u); do
  printf 'service\t%s\n' "$service"
  firewall-cmd --info-service="$service" | while IFS= read -r line; do printf '\t%s\n' "$line"; done
done
exit 0

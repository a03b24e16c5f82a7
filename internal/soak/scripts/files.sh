# Prints the files that the provider writes to a machine, but for what is part of etcd's data: its permissions, its
# size and its path, and the content of small ones in base64.
{
  find /etc/etcd /etc/kubernetes /etc/haproxy/kube /etc/keepalived /etc/kube-endpoint-* /opt/kube \
    /etc/systemd/system -xdev -type f -printf '%m %s %p\n'
  for place in $volumes; do
    find "$place" -maxdepth 1 -type f -printf '%m %s %p\n'
  done
} 2>/dev/null |
  while read -r mode size file; do
    content=-
    case $file in
    /opt/*) ;;
    *) [ "$size" -gt 65536 ] || content=$(base64 -w0 "$file" 2>/dev/null) || continue ;; # it was removed meanwhile
    esac
    echo "$mode $size $file ${content:--}"
  done

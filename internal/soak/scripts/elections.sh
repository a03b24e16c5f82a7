# Prints when this machine noticed elections after a time (Go sets since, seconds since 1970): "address TIME" for the
# first one of keepalived that it won, "etcd TIME" for the first leader of etcd that its member knew. Times are seconds
# since 1970 with a fraction.
journalctl --no-pager --output=short-unix --unit=kube-endpoint-keepalived.service --since="@$since" |
  sed -n '/Entering MASTER STATE/{s/^\([0-9.]*\) .*/address \1/p;q}'
journalctl --no-pager --output=short-unix --unit=etcd.service --since="@$since" |
  sed -n '/elected leader/{s/^\([0-9.]*\) .*/etcd \1/p;q}'

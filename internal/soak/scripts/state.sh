# Prints the state that is most useful when a failure is investigated.
systemctl list-units --all --no-legend --plain 'etcd*' 'kube-*' | cat
ls -la /etc/etcd /var/lib/etcd /run/kube/changed 2>/dev/null
cat /etc/etcd/member.json /etc/etcd/bootstrap.env 2>/dev/null
journalctl --no-pager --output=cat --lines=15 --unit=etcd

# Makes the machine's member lose its data, as a broken disk does.
systemctl kill --signal=KILL etcd
systemctl stop etcd
rm -rf /var/lib/etcd/member /var/lib/etcd/aside

# Adds the machine's etcd as a voter through the member at $by. The last lines of the
# output of "member add" are the new member's settings; those that are also flags would
# conflict with them.
rm -rf /var/lib/etcd/member
retry ctl "$by" member add "$name" --learner --peer-urls="https://$address:2380"
printf '%s\n' "$said" | grep '^ETCD_INITIAL_CLUSTER' >/etc/etcd/bootstrap.env
id=$(printf '%s\n' "$said" | sed -n 's/^Member *\([0-9a-f]*\) added .*/\1/p')
systemctl start --no-block etcd
retry ctl "$by" member promote "$id"

# Prints the state that is most useful when a failure is investigated.
systemctl list-units --all --no-legend --plain 'etcd*' 'kube-*' | cat
ls -la /etc/etcd /var/lib/etcd /run/kube/changed 2>/dev/null
cat /etc/etcd/member.json /etc/etcd/bootstrap.env 2>/dev/null
journalctl --no-pager --output=cat --lines=15 --unit=etcd
if command -v ctr >/dev/null; then
  ls -la /etc/kubernetes /etc/kubernetes/manifests
  ctr --namespace k8s.io tasks ls
  journalctl --no-pager --output=cat --lines=15 --unit=kubelet | cut -c 1-300
fi 2>&1

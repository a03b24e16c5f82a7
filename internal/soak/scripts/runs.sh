# Prints what runs a control plane on a machine with containerd, on a line each: the active units, the containers that
# run, and everything that is where the kubelet reads manifests.
systemctl list-units --plain --no-legend --state=active etcd.service 'kube-[acs]*.service' | cut -d ' ' -f 1 | sort | xargs
ctr --namespace k8s.io tasks ls | awk '$3 == "RUNNING" { print $1 }' | while read -r id; do
  ctr --namespace k8s.io containers info "$id" | sed -n 's/.*"io.kubernetes.container.name": "\([a-z-]*\)".*/\1/p' | head -n 1
done | sort | xargs
find /etc/kubernetes/manifests -mindepth 1 -printf '%f\n' | sort | xargs

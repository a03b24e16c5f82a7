# Upgrades a machine of kubeadm to $version, with the kubeadm that is on it. $first is yes on the first machine and no on
# the others. etcd has its version already. No addon is installed, and the health check that runs a Pod has no node to
# run on.
set -eu
export KUBECONFIG=/etc/kubernetes/admin.conf
if [ "$first" = yes ]; then
  kubeadm upgrade apply --yes --skip-phases=addon "v$version" --ignore-preflight-errors=all
else
  kubeadm upgrade node --skip-phases=addon,kubelet-config --ignore-preflight-errors=all
fi

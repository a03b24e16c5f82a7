package acceptance

import (
	"fmt"
	"sync"
	"testing"
)

// runtimeOverride has the runtime of members and replicas.
const runtimeOverride = `
resource "kube_etcd_member" "this" { runtime = %[1]q }
resource "kube_control_plane_replica" "this" { runtime = %[1]q }
`

// TestMoveRuntime: a control plane of three machines moves from units to static pods and back, one machine at a time,
// and its clients do not notice.
func TestMoveRuntime(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	machines(t)
	var group sync.WaitGroup
	for _, name := range names {
		m := shared.lab.Machine(name)
		rebuildAfter(t, m)
		installNode(t, m, "")
		group.Go(func() { onMachine(t, m, "systemctl start kubelet") })
	}
	group.Wait()
	w := newStory(t, names...)
	apply(t, w)
	clients := startLoad(t, outputOf(t, w, "kubeconfig"), names...)
	expectRunBy(t, names, "etcd.service kube-apiserver.service kube-controller-manager.service kube-scheduler.service", "")

	override(t, w, fmt.Sprintf(runtimeOverride, "static_pod"))
	expectContains(t, unfolded(plan(t, w)), "Member moves to another runtime",
		"the data directory and the member's certificates and keys are given to root", "Replica moves to another runtime",
		"Root runs the pods")
	applyOnly(t, w, "the others follow", `-target=kube_etcd_member.this["cp2"]`) // members with both runtimes
	apply(t, w)
	expectRunBy(t, names, "", "etcd kube-apiserver kube-controller-manager kube-scheduler")

	override(t, w, fmt.Sprintf(runtimeOverride, "systemd"))
	expectContains(t, unfolded(plan(t, w)), "the member's certificates and keys are given to the user etcd")
	apply(t, w, "-parallelism=1")
	expectRunBy(t, names, "etcd.service kube-apiserver.service kube-controller-manager.service kube-scheduler.service", "")
	undisturbed(t, clients)
	apply(t, w, "-destroy")
}

// expectRunBy expects units, or containers, of the control plane on each machine, and no others.
func expectRunBy(t *testing.T, names []string, units, containers string) {
	t.Helper()
	for _, name := range names {
		got := onMachine(t, shared.lab.Machine(name), `
systemctl list-units --plain --no-legend --state=active etcd.service 'kube-[acs]*.service' | cut -d ' ' -f 1 |
  sort | xargs
ctr -n k8s.io tasks ls -q | while read -r id; do
  ctr -n k8s.io containers info "$id" | sed -n 's/.*"io.kubernetes.container.name": "\([a-z-]*\)".*/\1/p' | head -n 1
done | sort | xargs`)
		if got != units+"\n"+containers+"\n" {
			t.Errorf("%s runs\n%s, want units %q and containers %q", name, got, units, containers)
		}
	}
}

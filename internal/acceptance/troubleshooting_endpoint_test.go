package acceptance

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lostVirtualIP: neither keepalived nor HAProxy runs.
func (s symptoms) lostVirtualIP(t *testing.T) {
	s.stopEndpoint(t)
	expectContains(t, s.issues(t), "no balancer has it")
	expectContains(t, s.on(t, "cp1", showVirtualIP), "inactive\ninactive\n")
	s.repaired(t)
}

// twoVirtualIPs: a machine and the others do not hear each other's keepalived; or it has got the address by hand.
func (s symptoms) twoVirtualIPs(t *testing.T) {
	const vrrp = "for each in INPUT OUTPUT; do iptables %s $each -p 112 -j DROP; done"
	for _, cause := range []struct{ begin, end, state string }{
		{fmt.Sprintf(vrrp, "-I"), fmt.Sprintf(vrrp, "-D"), "Entering MASTER STATE"},
		{"ip address add " + vip + "/32 dev lo", "ip address delete " + vip + "/32 dev lo", "Entering BACKUP STATE"},
	} {
		holder := s.holders(t)
		other := slices.DeleteFunc(slices.Clone(s.names), func(name string) bool { return slices.Contains(holder, name) })[0]
		onMachine(t, shared.lab.Machine(other), cause.begin)
		await(t, "the address is not on two machines", func() bool { return len(s.holders(t)) == 2 })
		expectContains(t, s.issues(t), "virtual IP "+vip+": it is on", "at the same time")
		for _, name := range append(holder, other) {
			expectContains(t, s.on(t, name, showVirtualIP), vip)
		}
		states := strings.Split(strings.TrimSpace(s.on(t, other, showVirtualIP)), "\n")
		expectContains(t, states[len(states)-1], cause.state)
		onMachine(t, shared.lab.Machine(other), cause.end)
		await(t, "the address is not on one machine", func() bool { return len(s.holders(t)) == 1 })
	}
	s.repaired(t)
}

// holders returns the machines that have the virtual IP.
func (s symptoms) holders(t *testing.T) (names []string) {
	t.Helper()
	for _, name := range s.names {
		if strings.Contains(onMachine(t, shared.lab.Machine(name), "ip -o address show"), " "+vip+"/") {
			names = append(names, name)
		}
	}
	return names
}

// hungBalancer: the keepalived that has the address hangs.
func (s symptoms) hungBalancer(t *testing.T) {
	m := holder(t, s.names...)
	begun := time.Now().Unix()
	onMachine(t, m, "systemctl kill --signal=STOP kube-endpoint-keepalived")
	awaitFor(t, 2*time.Minute, "the keepalived that hangs is not killed", func() bool {
		return strings.Contains(onMachine(t, m, fmt.Sprintf(
			"journalctl --unit=kube-endpoint-liveness --since=@%d --no-pager --output=cat", begun)), "it is killed")
	})
	await(t, "the address is not on one machine", func() bool { return len(s.holders(t)) == 1 })
	s.repaired(t)
}

// stopEndpoint stops what serves at the virtual IP, on all machines.
func (s symptoms) stopEndpoint(t *testing.T) {
	t.Helper()
	for _, name := range s.names {
		onMachine(t, shared.lab.Machine(name), "systemctl stop kube-endpoint-keepalived kube-endpoint-haproxy")
	}
}

// allNodesNotReady: the endpoint of kubelets is down. Their node objects are updated through it.
func (s symptoms) allNodesNotReady(t *testing.T) {
	names := []string{"worker-1", "worker-2"}
	stop := standInKubelets(t, s.operator(t), names...)
	defer stop()
	states := func() (ready, since []string) {
		for _, line := range strings.Split(strings.TrimSpace(s.typed(t, showNodes)), "\n")[1:] {
			columns := strings.Fields(line)
			ready, since = append(ready, columns[1]), append(since, columns[2])
		}
		return ready, since
	}
	are := func(state string) func() bool {
		return func() bool {
			ready, _ := states()
			return slices.Equal(ready, []string{state, state})
		}
	}
	await(t, "the nodes are not ready", are("True"))
	s.stopEndpoint(t)
	awaitFor(t, 4*time.Minute, "the nodes are ready", are("Unknown"))
	_, since := states()
	first, err := time.Parse(time.RFC3339, since[0])
	if err != nil {
		t.Fatal(err)
	}
	second, err := time.Parse(time.RFC3339, since[1])
	if err != nil {
		t.Fatal(err)
	}
	if apart := second.Sub(first).Abs(); apart > 15*time.Second {
		t.Errorf("the nodes are not ready since %s and %s", first, second)
	}
	expectContains(t, s.issues(t), "no balancer has it")
	s.repaired(t)
	await(t, "the nodes do not return", are("True"))
	stop()
	for _, name := range names {
		kubectl(t, s.w, s.admin, "delete", "node", name)
	}
}

// standInKubelets stand in for kubelets, which need a container runtime: they create nodes, and say through the
// endpoint that they are ready until stop is called, which may be called twice.
func standInKubelets(t *testing.T, admin credentials, names ...string) (stop func()) {
	t.Helper()
	for _, name := range names {
		admin.must(t, endpointURL, http.MethodPost, "/api/v1/nodes", nodeIsReady(name), nil)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() {
			for ctx.Err() == nil {
				_, _, _ = admin.call(ctx, endpointURL, http.MethodPut, "/api/v1/nodes/"+name+"/status", nodeIsReady(name), nil)
				select {
				case <-ctx.Done():
				case <-time.After(3 * time.Second):
				}
			}
		})
	}
	return func() { cancel(); all.Wait() }
}

// nodeIsReady returns a node whose kubelet says so now.
func nodeIsReady(name string) core.Node {
	now := meta.Now()
	return core.Node{
		TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: meta.ObjectMeta{Name: name},
		Status: core.NodeStatus{Conditions: []core.NodeCondition{{
			Type: core.NodeReady, Status: core.ConditionTrue, LastHeartbeatTime: now, LastTransitionTime: now,
			Reason: "KubeletReady", Message: "a stand-in of a kubelet",
		}}},
	}
}

package acceptance

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// noLeader: two of three members are stopped.
func (s symptoms) noLeader(t *testing.T) {
	for _, name := range []string{"cp2", "cp3"} {
		onMachine(t, shared.lab.Machine(name), "systemctl stop etcd")
	}
	expectContains(t, s.issues(t), "etcd member cp2 ("+address("cp2")+"): etcd.service is inactive",
		"etcd member cp3 ("+address("cp3")+"): etcd.service is inactive")
	for _, name := range []string{"cp2", "cp3"} {
		s.on(t, name, startMember)
	}
	s.repaired(t)
}

// lostConnection: a firewall between two members, neither of which leads, that drops what one sends, or ends its
// connections. So nothing else is in their logs.
func (s symptoms) lostConnection(t *testing.T) {
	leader := s.leader(t)
	followers := slices.DeleteFunc(slices.Clone(s.names), func(name string) bool { return name == leader })
	one, other := followers[0], followers[1]
	for _, name := range followers { // they may have led when the control plane was created
		onMachine(t, shared.lab.Machine(name), "journalctl --rotate; sleep 2; journalctl --vacuum-time=1s 2>&1")
	}
	for _, cause := range []struct{ target, shown string }{
		{"DROP", "prober detected unhealthy status"},
		{"REJECT --reject-with tcp-reset", "lost TCP streaming connection"},
	} {
		rules := func(do string) {
			for _, port := range []string{"--dport", "--sport"} {
				onMachine(t, shared.lab.Machine(one),
					"iptables "+do+" INPUT -p tcp -s "+address(other)+" "+port+" 2380 -j "+cause.target)
			}
		}
		rules("-I")
		shown := ""
		awaitFor(t, 2*time.Minute, other+" does not show "+cause.shown, func() bool {
			shown = s.on(t, other, showLeaders)
			return strings.Contains(shown, cause.shown)
		})
		if strings.Contains(shown, "overloaded") {
			t.Errorf("%s: another cause is shown:\n%s", other, shown)
		}
		rules("-D")
		expectOpen(t, other, shared.lab.Machine(one).Address, 2380, true)
		expectOpen(t, one, shared.lab.Machine(other).Address, 2380, true)
	}
	awaitRotation(t, s.names...)
}

// leaderChanges: the leader stands still for longer than an election takes, as with a disk that does
// not answer.
func (s symptoms) leaderChanges(t *testing.T) {
	shown := ""
	for range 5 {
		leader := s.leader(t)
		onMachine(t, shared.lab.Machine(leader),
			"systemctl kill --signal=STOP etcd; sleep 4; systemctl kill --signal=CONT etcd")
		await(t, "no member leads", func() bool { return s.leader(t) != "" })
		if shown = s.on(t, leader, showLeaders); strings.Contains(shown, "slow disk") {
			break
		}
	}
	expectContains(t, shown, "elected leader", "overloaded likely from slow disk")
	awaitRotation(t, s.names...)
}

// leader returns the machine of the leader, or "" if there is none.
func (s symptoms) leader(t *testing.T) string {
	t.Helper()
	for _, name := range s.names {
		out := onMachine(t, shared.lab.Machine(name), "curl -s --max-time 3 http://127.0.0.1:2381/metrics || true")
		if strings.Contains(out, "\netcd_server_is_leader 1\n") {
			return name
		}
	}
	return ""
}

// pendingPods: no scheduler runs; with one, there is no node.
func (s symptoms) pendingPods(t *testing.T) {
	for _, name := range s.names {
		onMachine(t, shared.lab.Machine(name), "systemctl stop kube-scheduler")
	}
	kubectl(t, s.w, s.admin, "run", "pending", "--namespace=default", "--image=none",
		`--overrides={"spec":{"automountServiceAccountToken":false}}`)
	out := s.typed(t, showPods)
	expectContains(t, out, "LEADER")
	if strings.Contains(out, "FailedScheduling") {
		t.Errorf("without a scheduler, there are events:\n%s", out)
	}
	expectContains(t, s.issues(t), "kube-scheduler.service is inactive")
	s.repaired(t)
	await(t, "no event says why the Pod is pending", func() bool {
		return strings.Contains(s.typed(t, showPods), "no nodes available to schedule pods")
	})
	kubectl(t, s.w, s.admin, "delete", "pod", "pending", "--namespace=default", "--force")
}

// nodesNotReady: a node whose kubelet never answers, first without any controller-manager.
func (s symptoms) nodesNotReady(t *testing.T) {
	for _, name := range s.names {
		onMachine(t, shared.lab.Machine(name), "systemctl stop kube-controller-manager")
	}
	node := writeFile(t, s.w, "node.yaml", "{apiVersion: v1, kind: Node, metadata: {name: worker}}\n")
	kubectl(t, s.w, s.admin, "create", "--filename="+node)
	if shown := strings.Fields(s.typed(t, showNodes)); len(shown) < 6 || shown[4] != "worker" || shown[5] != "<none>" {
		t.Errorf("without a controller-manager, the node is shown as %q", shown)
	}
	expectContains(t, s.issues(t), "kube-controller-manager.service is inactive")
	s.repaired(t)
	awaitFor(t, 3*time.Minute, "nothing says why the node is not ready", func() bool {
		return strings.Contains(s.typed(t, showNodes), "Kubelet never posted node status")
	})
	kubectl(t, s.w, s.admin, "delete", "node", "worker")
}

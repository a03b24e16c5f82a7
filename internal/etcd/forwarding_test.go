package etcd

import (
	"errors"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// TestForwardingBeforeInstall: a member is refused on a machine whose sshd forbids that it is asked, before anything is
// installed there.
func TestForwardingBeforeInstall(t *testing.T) {
	cl, specs, machines := reimagedCluster(t)
	machines["10.0.0.2"].forbids = true
	refused := cl.checkConnections(t.Context(), specs, cl.observeCluster(t.Context(), specs["cp1"]))
	for name := range specs {
		err := refused[name]
		if name != "cp2" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !problem.Untouched(err) || !strings.Contains(err.Error(), host.ErrForwarding.Error()) ||
			!strings.Contains(err.Error(), "10.0.0.2:2379, 127.0.0.1:2381") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestForwardingIsNoLostQuorum: members that cannot be asked because of sshd may serve. Nothing is restored, and nobody
// is told to give up what they know.
func TestForwardingIsNoLostQuorum(t *testing.T) {
	cl, specs, machines := reimagedCluster(t, trio...)
	for _, m := range machines {
		m.forbids = true
		m.facts.Units = map[string]host.UnitState{layout.Unit: {Load: "loaded", Active: "active"}}
	}
	one := specs["cp1"]
	s := cl.observeCluster(t.Context(), one)
	if d := cl.decideRestore(t.Context(), one, s, true); d.Case != restoreRefuse ||
		!strings.Contains(d.Reason, host.ErrForwarding.Error()) || !strings.Contains(d.Next, "127.0.0.1:2381") {
		t.Errorf("%s: %s; %s", d.Case, d.Reason, d.Next)
	}
	survivors := cl.positions(t.Context(), one, s)
	if len(survivors) != len(trio) {
		t.Fatalf("survivors: %v", survivors)
	}
	for _, is := range survivors {
		if !errors.Is(is.Err, host.ErrForwarding) {
			t.Errorf("%s: %v", is.Name, is.Err)
		}
	}
	if next := lostNext(survivors, machine.Spec{}); !strings.Contains(next, "127.0.0.1:2381") ||
		strings.Contains(next, "restore") {
		t.Errorf("next step: %s", next)
	}
	if table := survivorTable(survivors); !strings.Contains(table, "sshd forbids TCP forwarding") {
		t.Errorf("survivors:\n%s", table)
	}
	one.Restore = &machine.Restore{ID: "two", Member: "cp1"}
	if _, err := cl.stage(t.Context(), one, s); err == nil || strings.Contains(err.Error(), "accept_older") ||
		!strings.Contains(err.Error(), "127.0.0.1:2381") {
		t.Errorf("stage: %v", err)
	}
}

// TestForwardingIsNoLostCluster: a member whose cluster cannot be asked because of sshd is not removed by what its
// machine says alone.
func TestForwardingIsNoLostCluster(t *testing.T) {
	cl, specs, machines := reimagedCluster(t, trio...)
	for _, m := range machines {
		m.forbids = true
		m.facts.Units = map[string]host.UnitState{layout.Unit: {Load: "loaded", Active: "active"}}
	}
	turn := cl.turns.Enter()
	defer turn.Leave()
	l := &removal{cl: cl, s: specs["cp1"], turn: turn}
	l.since.Begin(turn)
	if done, err := l.step(t.Context()); done || err == nil || !strings.Contains(err.Error(), "127.0.0.1:2381") ||
		strings.Contains(err.Error(), "quorum") {
		t.Errorf("done %t, %v", done, err)
	}
}

// TestForwardingIsNoDeath: a member that cannot be asked because of its machine's sshd does not count as dead.
func TestForwardingIsNoDeath(t *testing.T) {
	cl, specs, machines := reimagedCluster(t, trio...)
	machines["10.0.0.2"].forbids = true
	m := membership.Member{ID: 2, Name: "cp2", PeerURLs: []string{"https://10.0.0.2:2380"}}
	if answered, err := cl.answers(t.Context(), specs["cp1"], m); answered || !errors.Is(err, host.ErrForwarding) {
		t.Errorf("answered %t, %v", answered, err)
	}
}

// TestForwardingBeforeUpdate: an update does not begin if its member cannot be asked because of sshd.
func TestForwardingBeforeUpdate(t *testing.T) {
	cl, specs, machines := reimagedCluster(t, trio...)
	machines["10.0.0.2"].forbids = true
	for _, name := range trio {
		err := cl.requireOneCluster(t.Context(), specs[name])
		if (err != nil) != (name == "cp2") || err != nil && !problem.Untouched(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

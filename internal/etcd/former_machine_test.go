package etcd

import (
	"errors"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// TestFormerMachine: the machine of a member is gone, and another one has its address by now. A refresh keeps the
// member in the state, on the machine that it ran on last, and a move changes nothing on the other one.
func TestFormerMachine(t *testing.T) {
	stranger, foreign := strings.Repeat("e", 32), host.Facts{Units: map[string]host.UnitState{
		layout.Unit: {Load: "loaded", Active: "active"},
	}}
	for name, facts := range map[string]host.Facts{
		"a stranger with etcd":     foreign,
		"rebuilt, without volumes": {},
		"rebuilt, a blank disk": {
			Output: "volume device /dev/sdb\nvolume number 8:16\nvolume kind nothing\n",
		},
	} {
		cl, specs, machines := reimagedCluster(t)
		clusters := &Clusters{pace: cl.pace, machine: cl.machine, clusters: map[string]*cluster{}}
		s := specs["cp3"]
		s.Restore = nil
		clusters.clusters[s.Bundle.ClusterID] = cl
		was := machines["10.0.0.3"]
		last := was.facts.MachineID
		was.facts, was.unmounted = facts, ""
		was.facts.MachineID = stranger
		status, err := clusters.Read(t.Context(), s)
		if err != nil {
			t.Errorf("%s: %v, gone: %t", name, err, errors.Is(err, ErrGone))
			continue
		}
		if status.Holds || status.MachineID != stranger || len(status.Drift) == 0 {
			t.Errorf("%s: read as %+v", name, status)
		}

		moved := s
		pool, err := host.NewPool(host.Config{})
		if err != nil {
			t.Fatal(err)
		}
		moved.Former, moved.Host, moved.LastMachine = s.Host, pool.Host(host.Target{Address: "10.0.0.4"}), last
		moved.Peers = map[string]*host.Host{"cp1": s.Peers["cp1"], "cp2": s.Peers["cp2"], "cp3": moved.Host}
		machines["10.0.0.4"] = &reimaged{address: "10.0.0.4", facts: host.Facts{MachineID: strings.Repeat("4", 32)}}
		_, err = clusters.Update(t.Context(), moved)
		if err == nil || !strings.Contains(err.Error(), "is not attached to the machine") ||
			!strings.Contains(err.Error(), problem.Nothing) {
			t.Errorf("%s: %v", name, err)
		}
		if len(was.changes) > 0 {
			t.Errorf("%s: the other machine was changed", name)
		}
	}
}

// TestHoldsMember: the machine that has mounted the volume of the member is the one on which it ran last.
func TestHoldsMember(t *testing.T) {
	cl, specs, _ := reimagedCluster(t, "cp1")
	clusters := &Clusters{pace: cl.pace, machine: cl.machine, clusters: map[string]*cluster{}}
	clusters.clusters[specs["cp1"].Bundle.ClusterID] = cl
	for name, want := range map[string]bool{"cp1": true, "cp2": false} {
		s := specs[name]
		s.Restore = nil
		if status, err := clusters.Read(t.Context(), s); err != nil || status.Holds != want {
			t.Errorf("%s: %+v, %v", name, status, err)
		}
	}
}

// TestGivesUpData: only a restore that is requested now, from another source than the member itself, makes its data
// needless.
func TestGivesUpData(t *testing.T) {
	for name, c := range map[string]struct {
		restore *machine.Restore
		now     bool
		want    bool
	}{
		"no restore":             {nil, false, false},
		"an earlier restore":     {&machine.Restore{ID: "one", Fetch: "true"}, false, false},
		"a restore":              {&machine.Restore{ID: "one", Fetch: "true"}, true, true},
		"a restore from another": {&machine.Restore{ID: "one", Member: "cp2"}, true, true},
		"a restore from it":      {&machine.Restore{ID: "one", Member: "cp1"}, true, false},
	} {
		s := Spec{Spec: machine.Spec{Name: "cp1", Restore: c.restore}, NewRestore: c.now}
		if s.givesUpData() != c.want {
			t.Errorf("%s: %t", name, !c.want)
		}
	}
}

package etcd

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// TestRetiredForRestore: the machines of the members that a restore has archived say so. When the machine with the
// staged data is lost, no empty cluster is bootstrapped on them, and the restore can be done again.
func TestRetiredForRestore(t *testing.T) {
	cl, specs, machines := reimagedCluster(t, trio...)
	seed := specs["cp1"]
	if err := cl.retireAll(t.Context(), seed, cl.observeCluster(t.Context(), seed)); err != nil {
		t.Fatal(err)
	}
	s := cl.observeCluster(t.Context(), seed)
	for _, name := range trio {
		m := s.of(specs[name])
		if m.Retired() != "one" || m.Data || m.Record.Name != name || m.Record.Restored != "zero" ||
			m.Record.ID() != 0 {
			t.Errorf("%s: data %t, recorded as %+v", name, m.Data, m.Record)
		}
	}
	lost := machines[seed.Host.Address()]
	lost.facts = host.Facts{MachineID: strings.Repeat("9", 32)}
	s = cl.observeCluster(t.Context(), seed)
	for _, resumed := range []bool{false, true} {
		d := cl.decideStart(seed, s, trio, resumed)
		if d.Case != startRefuse || !strings.Contains(d.Reason, "a restore was begun and not completed") {
			t.Errorf("without the restore: %+v", d)
		}
	}
	if d := cl.decideRestore(t.Context(), seed, s, false); d.Case != restoreRun {
		t.Errorf("with the restore: %+v", d)
	}

	// When the restore is done, only the machines of peers say it, until their members join.
	seed.Peers = map[string]*host.Host{"cp1": specs["cp1"].Host, "cp2": specs["cp2"].Host}
	if err := cl.forgetRetired(t.Context(), seed); err != nil {
		t.Fatal(err)
	}
	s = cl.observeCluster(t.Context(), seed)
	if s.of(specs["cp2"]).Retired() == "" || s.of(specs["cp3"]).Record != nil {
		t.Errorf("the peer records %+v, the other machine %+v", s.of(specs["cp2"]).Record, s.of(specs["cp3"]).Record)
	}
}

// unplaced is a machine as a process sees it that ends before it puts restored data in place.
type unplaced struct{ *testMachine }

func (m unplaced) Change(ctx context.Context, c host.Change, a machine.Action) (host.Applied, error) {
	if a.Verb == machine.PlaceRestored {
		return host.Applied{}, errDied
	}
	return m.testMachine.Change(ctx, c, a)
}

// cutBeforePlace applies by a process that ends before it puts restored data in place.
func (f *lostFleet) cutBeforePlace() {
	f.t.Helper()
	dying := f.coordinator()
	dying.machine = func(h *host.Host) machine.Machine { return unplaced{f.machines[h.Address()]} }
	for name, err := range f.update(dying) {
		if err == nil {
			f.t.Errorf("%s was updated by a process that has ended", name)
		}
	}
}

// TestRestoreSeedLost: a restore was cut off when the members' data was archived, and the machine with the staged data
// is lost. An apply without the restore makes no empty cluster of the machines that are left.
func TestRestoreSeedLost(t *testing.T) {
	testrun.Long(t)
	t.Parallel()
	f := newLostFleet(t)
	f.empty("cp1", "cp2")
	f.request(machine.Restore{ID: "one", Snapshot: f.snapshot})
	f.cutBeforePlace()
	f.wipe("cp1")
	if err := os.RemoveAll(f.machine("cp1").at(layout.ArchiveRoot(layout.DefaultDataDir))); err != nil {
		t.Fatal(err)
	}
	f.request(machine.Restore{})
	f.refuses("a restore was begun and not completed: the data of the members on cp2")
	f.neverEmpty("an apply without the restore")
	f.request(machine.Restore{ID: "one", Snapshot: f.snapshot})
	f.mustUpdate("restore again")
	f.serves("restored", "saved")
}

// TestRestoreReverted: a restore was cut off when the members' data was archived, and the configuration says again what
// it said before: an earlier restore, which was done. That one is not done again.
func TestRestoreReverted(t *testing.T) {
	testrun.Long(t)
	t.Parallel()
	f := newLostFleet(t)
	f.empty(trio...)
	f.request(machine.Restore{ID: "one", Snapshot: f.snapshot})
	f.mustUpdate("restore")
	f.put("/registry/pods/a", "newer")
	f.empty("cp1", "cp2")
	f.request(machine.Restore{ID: "two", Member: "cp3"})
	f.cutBeforePlace()
	f.request(machine.Restore{ID: "one", Snapshot: f.snapshot})
	if plan := f.preview(); plan != "" {
		t.Errorf("the plan of the earlier restore is %s", plan)
	}
	f.refuses("a restore was begun and not completed")
	f.neverEmpty("an apply with the earlier restore")
	f.request(machine.Restore{ID: "two", Member: "cp3"})
	f.mustUpdate("the restore that was cut off")
	f.serves("restored", "newer")
}

package etcd

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// protect turns deletion protection on, which is the default outside of tests.
func (f *fleet) protect() {
	protected := *f.bundle
	protected.Deletable = false
	f.bundle = &protected
}

// renamed returns another process's spec of the same member.
func (f *fleet) renamed(s Spec, name string) Spec {
	s.Name = name
	return s
}

// TestRenamedKeys is a for_each whose keys are renamed without moved blocks: each member
// is created and deleted in the same run, in any order.
func TestRenamedKeys(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.protect()
	everyone := []string{"cp1", "cp2", "cp3"}
	specs := f.specs(everyone...)
	f.create(specs, everyone...)
	before := f.calm(specs["cp1"])
	f.clusters = f.coordinator()
	var claims sync.Map
	var group sync.WaitGroup
	for _, name := range everyone {
		group.Go(func() {
			superseded := func() bool { _, ok := claims.Load(name); return ok }
			if err := f.clusters.Delete(f.context(), specs[name], DeleteOptions{Superseded: superseded}); err != nil {
				t.Errorf("delete %s: %v", name, err)
			}
		})
		group.Go(func() {
			claims.Store(name, true)
			if _, err := f.clusters.Create(f.context(), specs[name]); err != nil {
				t.Errorf("create %s: %v", name, err)
			}
		})
	}
	group.Wait()
	f.clusters = f.coordinator()
	if after := f.calm(specs["cp1"]); after.ClusterID != before.ClusterID || roster(after) != "cp1 cp2 cp3" {
		t.Errorf("the cluster was %x with %s, is now\n%s", before.ClusterID, roster(before), after)
	}
}

// TestSupersededInTheMiddle begins the Create when the Delete is already waiting.
func TestSupersededInTheMiddle(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp1", "cp2", "cp3")
	f.calm(specs["cp1"])
	asked := 0
	superseded := func() bool { asked++; return asked > 1 } // after the observation, before the action
	if err := f.clusters.Delete(f.context(), specs["cp2"], DeleteOptions{Superseded: superseded}); err != nil {
		t.Fatal(err)
	}
	f.wantRoster(specs["cp1"], "cp1 cp2 cp3")
}

// TestProtectedClusterKeepsItsLastVoter replaces all members one after another, as
// -replace with -parallelism=1 does: all Deletes first.
func TestProtectedClusterKeepsItsLastVoter(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.protect()
	everyone := []string{"cp1", "cp2", "cp3"}
	specs := f.specs(everyone...)
	f.create(specs, everyone...)
	before := f.calm(specs["cp1"])
	f.clusters = f.coordinator()
	for i, name := range everyone {
		err := f.clusters.Delete(f.context(), specs[name], DeleteOptions{})
		if last := i == 2; (err != nil) != last {
			t.Fatalf("delete %s: %v", name, err)
		} else if last && (!strings.Contains(err.Error(), "deletion_protection") || !problem.Untouched(err)) {
			t.Errorf("the refusal of the last voter is %v", err)
		}
	}
	f.create(specs, "cp1", "cp2") // Terraform continues with those whose Delete was done
	if after := f.calm(specs["cp3"]); after.ClusterID != before.ClusterID || roster(after) != "cp1 cp2 cp3" {
		t.Errorf("the cluster was %x, is now\n%s", before.ClusterID, after)
	}
}

// TestSilentProtectedClusterKeepsItsData verifies that the data is kept if no member
// answers: the data on the machines is all that is left.
func TestSilentProtectedClusterKeepsItsData(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.protect()
	specs := f.specs("cp1")
	f.create(specs, "cp1")
	f.kill("cp1", false)
	f.clusters = f.coordinator()
	err := f.clusters.Delete(f.context(), specs["cp1"], DeleteOptions{})
	if err == nil || !strings.Contains(err.Error(), "deletion_protection") {
		t.Errorf("delete of the only, stopped member: %v", err)
	}
}

// TestFailedBootstrapMayBeDestroyed verifies that members that never served can be
// destroyed: they have nothing to protect.
func TestFailedBootstrapMayBeDestroyed(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.protect()
	f.clusters.pace.StallTimeout = 0
	specs := f.specs("cp1")
	f.machine("cp1").broken = true
	if _, err := f.clusters.Create(f.context(), specs["cp1"]); err == nil {
		t.Fatal("a member that does not start was created")
	}
	f.clusters = f.coordinator()
	if err := f.clusters.Delete(f.context(), specs["cp1"], DeleteOptions{}); err != nil {
		t.Errorf("delete of a member that never served: %v", err)
	}
	f.machine("cp1").wantClean()
}

// TestLastVoterWaitsForCreates verifies that even without protection, the cluster is not
// destroyed while the same run creates members, nor if their creation has failed.
func TestLastVoterWaitsForCreates(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2")
	f.create(specs, "cp1")
	f.clusters = f.coordinator()
	f.machine("cp2").broken = true
	cl := f.clusters.of(specs["cp1"])
	cl.pace.StallTimeout = 0
	if _, err := f.clusters.Create(f.context(), specs["cp2"]); err == nil {
		t.Fatal("a member that does not start was created")
	}
	err := f.clusters.Delete(f.context(), specs["cp1"], DeleteOptions{})
	if err == nil || !strings.Contains(err.Error(), "cp2") || !problem.Untouched(err) {
		t.Errorf("delete of the last voter after a failed Create: %v", err)
	}
	f.wantRoster(specs["cp1"], "cp1")
}

// TestWipedLastVoterLeavesASnapshot verifies that on_destroy = "wipe" affects the data
// directory only.
func TestWipedLastVoterLeavesASnapshot(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1")
	f.create(specs, "cp1")
	s := specs["cp1"]
	s.OnDestroy = machine.Wipe
	if err := f.clusters.Delete(f.context(), s, DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	m := f.machine("cp1")
	m.wantClean()
	if saved, _ := filepath.Glob(m.at(layout.DefaultDataDir) + "-archive/*/snapshot.db"); len(saved) != 1 {
		t.Errorf("snapshots %q, want one", saved)
	}
	// A run that has removed the cluster's last member does not bootstrap another cluster.
	_, err := f.clusters.Create(f.context(), s)
	if err == nil || !strings.Contains(err.Error(), "empty cluster") || !problem.Untouched(err) {
		t.Errorf("create after the cluster has ended in the same run: %v", err)
	}
}

// TestUnsavedLastVoterIsNotWiped verifies that the member stays if its snapshot cannot be
// saved.
func TestUnsavedLastVoterIsNotWiped(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1")
	f.create(specs, "cp1")
	s := specs["cp1"]
	s.OnDestroy = machine.Wipe
	f.machine("cp1").unsaved = errors.New("no space left on device")
	err := f.clusters.Delete(f.context(), s, DeleteOptions{})
	if err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("wipe without a snapshot: %v", err)
	}
	f.wantRoster(s, "cp1")
}

// TestAllAddressesChange verifies the replacement of all machines: the new ones are empty
// and do not know the old ones, which the Deletes of the same run name.
func TestAllAddressesChange(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.protect()
	old := f.specs("cp1", "cp2", "cp3")
	f.create(old, "cp1", "cp2", "cp3")
	before := f.calm(old["cp1"])
	moved := f.specs("cp4", "cp5", "cp6") // the same names at other addresses
	fresh := map[string]Spec{}
	peers := map[string]*host.Host{}
	for from, to := range map[string]string{"cp4": "cp1", "cp5": "cp2", "cp6": "cp3"} {
		fresh[to] = f.renamed(moved[from], to)
		peers[to] = moved[from].Host
	}
	for name, s := range fresh {
		s.Peers = peers
		fresh[name] = s
	}
	f.clusters = f.coordinator()
	if err := f.clusters.Delete(f.context(), old["cp1"], DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.clusters.Create(f.context(), fresh["cp1"]); err != nil {
		t.Fatalf("create at another address: %v", err)
	}
	if after := f.calm(old["cp2"]); after.ClusterID != before.ClusterID || roster(after) != "cp1 cp2 cp3" {
		t.Errorf("the cluster was %x, is now\n%s", before.ClusterID, after)
	}
}

// TestTwoProcessesBootstrapOneCluster creates different members of one bundle in two
// processes.
func TestTwoProcessesBootstrapOneCluster(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	everyone := []string{"cp1", "cp2", "cp3"}
	specs := f.specs(everyone...)
	one, other := f.coordinator(), f.coordinator()
	var group sync.WaitGroup
	for name, process := range map[string]*Clusters{"cp1": one, "cp2": other, "cp3": other} {
		group.Go(func() {
			if _, err := process.Create(f.context(), specs[name]); err != nil {
				t.Errorf("create %s: %v", name, err)
			}
		})
	}
	group.Wait()
	f.calm(specs["cp1"])
	ids := map[string]bool{}
	for _, name := range everyone {
		ids[f.record(name).EtcdCluster] = true
	}
	if v := f.view(specs["cp1"]); len(ids) != 1 || roster(v) != "cp1 cp2 cp3" {
		t.Errorf("clusters %v:\n%s", slices.Collect(maps.Keys(ids)), v)
	}
}

// TestTwoProcessesTakeTurns verifies that a restart and a removal by two processes do not
// overlap.
func TestTwoProcessesTakeTurns(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	everyone := []string{"cp1", "cp2", "cp3"}
	specs := f.specs(everyone...)
	f.create(specs, everyone...)
	f.calm(specs["cp1"])
	var group sync.WaitGroup
	for i, name := range everyone {
		s := specs[name]
		s.ExtraArgs = map[string]string{"max-request-bytes": fmt.Sprint(2<<20 + i)}
		group.Go(func() {
			if _, err := f.coordinator().Update(f.context(), s); err != nil {
				t.Errorf("update %s: %v", name, err)
			}
		})
	}
	group.Wait()
	if most := f.outages.most.Load(); most > 1 {
		t.Errorf("%d members were stopped at the same time", most)
	}
}

// TestSplitClusterIsDrift verifies that two clusters under one bundle, as two processes of
// an earlier version could bootstrap them, are drift.
func TestSplitClusterIsDrift(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2")
	for _, name := range []string{"cp1", "cp2"} {
		alone := specs[name]
		alone.Peers = map[string]*host.Host{name: alone.Host}
		if _, err := f.coordinator().Create(f.context(), alone); err != nil {
			t.Fatal(err)
		}
	}
	f.clusters = f.coordinator()
	for _, name := range []string{"cp1", "cp2"} {
		status, err := f.clusters.Read(f.context(), specs[name])
		if err != nil || !strings.Contains(strings.Join(status.Drift, "\n"), "do not belong to one etcd cluster") {
			t.Errorf("read %s: %q, %v", name, status.Drift, err)
		}
		if _, err := f.clusters.Update(f.context(), specs[name]); !errors.Is(err, membership.ErrSplit) ||
			!problem.Untouched(err) {
			t.Errorf("update %s: %v", name, err)
		}
		if err := f.clusters.Delete(f.context(), specs[name], DeleteOptions{}); !errors.Is(err, membership.ErrSplit) ||
			!problem.Untouched(err) {
			t.Errorf("delete %s: %v", name, err)
		}
	}
	all := f.specs("cp1", "cp2", "cp3")
	if _, err := f.clusters.Create(f.context(), all["cp3"]); !errors.Is(err, membership.ErrSplit) ||
		!problem.Untouched(err) {
		t.Errorf("create cp3: %v", err)
	}
}

// TestEarlierLifeIsNotStarted verifies that a disk of a destroyed cluster is not started
// after the cluster was bootstrapped again under the same bundle.
func TestEarlierLifeIsNotStarted(t *testing.T) {
	testrun.Long(t)
	t.Parallel()
	f := newFleet(t)
	everyone := []string{"cp1", "cp2", "cp3"}
	specs := f.specs(everyone...)
	f.create(specs, everyone...)
	first := f.calm(specs["cp1"])
	f.kill("cp1", false)
	old := f.keep("cp1")
	// started again, so that it can be removed cleanly
	if _, err := f.clusters.Update(f.context(), specs["cp1"]); err != nil {
		t.Fatal(err)
	}
	f.calm(specs["cp1"])
	for name, err := range together(t, specs, func(s Spec) error {
		return f.clusters.Delete(f.context(), s, DeleteOptions{})
	}, everyone...) {
		if err != nil {
			t.Fatalf("delete %s: %v", name, err)
		}
	}
	f.clusters = f.coordinator()
	f.create(specs, everyone...)
	second := f.calm(specs["cp1"])
	a, _ := first.ByName("cp1")
	b, _ := second.ByName("cp1")
	if first.ClusterID == second.ClusterID || a.ID == b.ID {
		t.Fatalf("both lives have cluster %x, or member %x", first.ClusterID, a.ID)
	}
	f.kill("cp1", false)
	f.restore("cp1", old)
	starts := f.machine("cp1").starts
	status, err := f.clusters.Read(f.context(), specs["cp1"])
	if err != nil || !strings.Contains(strings.Join(status.Drift, "\n"), "has data of etcd cluster") {
		t.Errorf("read of a disk of the earlier life: %q, %v", status.Drift, err)
	}
	if status, err := f.clusters.Update(f.context(), specs["cp1"]); err != nil || !status.Healthy {
		t.Fatalf("update: %+v, %v", status, err)
	}
	if got := f.machine("cp1").starts - starts; got != 1 {
		t.Errorf("it was started %d times: the data of the earlier life must not be", got)
	}
	if v := f.calm(specs["cp2"]); v.ClusterID != second.ClusterID || roster(v) != "cp1 cp2 cp3" {
		t.Errorf("members are\n%s", v)
	}
}

// TestMixedLivesAreNotResumed verifies that nothing is started if no member answers and
// the disks are of different clusters.
func TestMixedLivesAreNotResumed(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2")
	for _, name := range []string{"cp1", "cp2"} {
		alone := specs[name]
		alone.Peers = map[string]*host.Host{name: alone.Host}
		if _, err := f.coordinator().Create(f.context(), alone); err != nil {
			t.Fatal(err)
		}
		f.kill(name, false)
	}
	f.clusters = f.coordinator()
	starts := f.machine("cp1").starts + f.machine("cp2").starts
	for _, name := range []string{"cp1", "cp2"} {
		for what, change := range map[string]func(Spec) error{
			"create": func(s Spec) error { _, err := f.clusters.Create(f.context(), s); return err },
			"update": func(s Spec) error { _, err := f.clusters.Update(f.context(), s); return err },
		} {
			if err := change(specs[name]); err == nil || !strings.Contains(err.Error(), "different etcd clusters") {
				t.Errorf("%s %s: %v", what, name, err)
			}
		}
	}
	if now := f.machine("cp1").starts + f.machine("cp2").starts; now != starts {
		t.Errorf("%d members were started", now-starts)
	}
}

// TestLostRecordIsWrittenAnew verifies that a removed member.json is written again.
func TestLostRecordIsWrittenAnew(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp1", "cp2", "cp3")
	f.calm(specs["cp1"])
	m := f.machine("cp1")
	delete(m.files, layout.RecordPath)
	status, err := f.clusters.Read(f.context(), specs["cp1"])
	if err != nil || !strings.Contains(strings.Join(status.Drift, "\n"), layout.RecordPath) {
		t.Errorf("read without a record: %q, %v", status.Drift, err)
	}
	starts := m.starts
	if status, err = f.clusters.Update(f.context(), specs["cp1"]); err != nil || len(status.Drift) > 0 {
		t.Fatalf("update without a record: %q, %v", status.Drift, err)
	}
	if m.starts != starts {
		t.Error("it was restarted")
	}
	delete(m.files, layout.RecordPath)
	f.kill("cp1", false)
	if _, err := f.clusters.Update(f.context(), specs["cp1"]); err == nil || !problem.Untouched(err) {
		t.Errorf("update of a stopped member without a record: %v", err)
	}
}

// TestAddressOfAnotherNow verifies that the machine of a dead member may belong to another
// cluster now.
func TestAddressOfAnotherNow(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.protect()
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp1", "cp2", "cp3")
	f.calm(specs["cp1"])
	f.wipe("cp3")
	other := newFleet(t)
	other.machines, other.net = f.machines, f.net
	strangers := other.specs("cp3")
	other.create(strangers, "cp3")
	f.clusters = f.coordinator()
	if err := f.clusters.Delete(f.context(), specs["cp3"], DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.wantRoster(specs["cp1"], "cp1 cp2")
	other.wantRoster(strangers["cp3"], "cp3")
}

// keep copies the content of a machine's disk.
func (f *fleet) keep(name string) (kept struct {
	files map[string]host.File
	data  string
},
) {
	f.t.Helper()
	m := f.machine(name)
	kept.files, kept.data = maps.Clone(m.files), f.t.TempDir()
	if err := os.CopyFS(kept.data, os.DirFS(m.at(layout.DefaultDataDir))); err != nil {
		f.t.Fatal(err)
	}
	return kept
}

// restore restores that content.
func (f *fleet) restore(name string, kept struct {
	files map[string]host.File
	data  string
},
) {
	f.t.Helper()
	m := f.machine(name)
	m.files = maps.Clone(kept.files)
	if err := os.RemoveAll(m.at(layout.DefaultDataDir)); err != nil {
		f.t.Fatal(err)
	}
	if err := os.CopyFS(m.at(layout.DefaultDataDir), os.DirFS(kept.data)); err != nil {
		f.t.Fatal(err)
	}
	_ = os.Chmod(m.at(layout.DefaultDataDir), 0o700)
}

package etcd

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// TestOnlyTheOperatorsNetworkIsDown verifies that a live voter is not abandoned because
// the user has named its address, if no machine can be reached.
func TestOnlyTheOperatorsNetworkIsDown(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp1", "cp2", "cp3")
	f.calm(specs["cp1"])
	for name := range specs {
		f.machine(name).lost = true
	}
	err := f.clusters.Delete(f.context(), specs["cp3"], DeleteOptions{Abandon: host.AbandonedAt(f.address("cp3"))})
	if err == nil || !problem.Untouched(err) || !strings.Contains(err.Error(), "cp1") {
		t.Errorf("delete: %v", err)
	}
}

// TestHostKeyIsNeverAbandoned verifies that a machine whose key has changed during a
// destroy is not gone: neither the machine nor the cluster is changed.
func TestHostKeyIsNeverAbandoned(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp1", "cp2", "cp3")
	f.calm(specs["cp1"])
	f.machine("cp3").refuses = &host.HostKeyError{
		Address: "cp3", Seen: "ssh-ed25519 AAAA",
		Known: []string{"ssh-ed25519 BBBB"},
	}
	err := f.clusters.Delete(f.context(), specs["cp3"], DeleteOptions{Abandon: host.AbandonedAt(f.address("cp3"))})
	if err == nil || !problem.Untouched(err) {
		t.Errorf("delete: %v", err)
	}
	f.wantRoster(specs["cp1"], "cp1 cp2 cp3")
}

// TestUnreachableVoterIsRemovedFirst verifies that the survivors remove a live voter that
// the operator cannot reach, and that its machine is abandoned only afterwards.
func TestUnreachableVoterIsRemovedFirst(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp1", "cp2", "cp3")
	f.calm(specs["cp1"])
	f.machine("cp3").lost = true
	if err := f.clusters.Delete(f.context(), specs["cp3"],
		DeleteOptions{Abandon: host.AbandonedAt(f.address("cp3"))}); err != nil {
		t.Fatal(err)
	}
	f.wantRoster(specs["cp1"], "cp1 cp2")
}

// TestLostClusterIsAbandoned verifies that, if two of three members are gone for good and
// quorum with them, the third one is stopped and its data kept, in any order of turns.
func TestLostClusterIsAbandoned(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp1", "cp2", "cp3")
	f.calm(specs["cp1"])
	f.kill("cp1", true)
	f.kill("cp2", true)
	f.clusters = f.coordinator()
	o := DeleteOptions{Abandon: host.AbandonedAt(f.address("cp1"), f.address("cp2"))}
	hold := f.clusters.of(specs["cp1"]).turns.Enter() // so that the lost ones come first
	var group sync.WaitGroup
	for i, name := range []string{"cp1", "cp2", "cp3"} {
		group.Go(func() {
			if err := f.clusters.Delete(f.context(), specs[name], o); err != nil {
				t.Errorf("delete %s: %v", name, err)
			}
		})
		for waiting := 0; waiting <= i; waiting, _ = hold.Others() {
			time.Sleep(time.Millisecond)
		}
	}
	hold.Leave()
	group.Wait()
	f.machine("cp3").wantClean()
	if f.machine("cp3").archives != 1 {
		t.Errorf("%d archives of the last data, want one", f.machine("cp3").archives)
	}
}

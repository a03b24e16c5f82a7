package etcd

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership/membershiptest"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestLeaseOfVoters: the lease is needed on the machines of the voters. A learner counts from its promotion on.
func TestLeaseOfVoters(t *testing.T) {
	for letters, want := range map[string][]string{
		"L":    {"10.0.0.1"},
		"Ll":   {"10.0.0.1"},
		"Lh":   {"10.0.0.1", "10.0.0.2"},
		"Lhl":  {"10.0.0.1", "10.0.0.2"},
		"lLd":  {"10.0.0.2", "10.0.0.3"},
		"Lhhl": {"10.0.0.1", "10.0.0.2", "10.0.0.3"},
	} {
		if got := (Spec{}).leaseAddresses(membershiptest.ClusterOf(letters)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", letters, got, want)
		}
	}
}

// TestLostLearnerBlocksNothing: beside the only voter, a learner whose machine is gone keeps neither the voter from
// being changed, nor itself from being removed.
func TestLostLearnerBlocksNothing(t *testing.T) {
	t.Parallel()
	f := newSmallFleet(t)
	specs := f.specs("cp1", "cp2")
	f.create(specs, "cp1")
	f.addLearner(specs["cp1"], specs["cp2"])
	f.kill("cp2", true)
	f.clusters = f.coordinator()
	s := specs["cp1"]
	s.ExtraArgs = map[string]string{"max-txn-ops": "256"}
	if status, err := f.clusters.Update(f.context(), s); err != nil || !status.Healthy || f.machine("cp1").starts != 2 {
		t.Errorf("update of the voter: %+v, %v", status, err)
	}
	if err := f.clusters.Delete(f.context(), specs["cp2"],
		DeleteOptions{Abandon: host.AbandonedAt(f.address("cp2"))}); err != nil {
		t.Errorf("delete of the learner: %v", err)
	}
	f.wantRoster(s, "cp1")
}

// TestLearnerOfAnotherProcess: a join that fails removes its learner only while it has the lease. Another process that
// has taken over may be promoting that learner.
func TestLearnerOfAnotherProcess(t *testing.T) {
	t.Parallel()
	f := newSmallFleet(t)
	specs := f.specs("cp1", "cp2")
	f.create(specs, "cp1")
	cl := f.clusters.of(specs["cp2"])
	turn := cl.turns.Enter()
	defer turn.Leave()
	if err := turn.Wait(f.context()); err != nil {
		t.Fatal(err)
	}
	ctx := cl.withLease(f.context())
	j := f.beginJoin(ctx, specs["cp2"])
	stays := func(failure error) {
		t.Helper()
		if err := j.afterFailure(ctx, failure); !errors.Is(err, failure) {
			t.Errorf("%v became %v", failure, err)
		}
		if _, listed := f.view(specs["cp1"]).Member(j.added); !listed || !f.machine("cp2").running() {
			t.Errorf("after %q, the learner was removed", failure)
		}
	}
	stays(fmt.Errorf("on the machine: %w", host.ErrLeaseLost))
	for _, name := range []string{"cp1", "cp2"} {
		f.machine(name).takeOver(LeaseName(f.bundle.ClusterID))
	}
	stays(errors.New("it does not start"))
}

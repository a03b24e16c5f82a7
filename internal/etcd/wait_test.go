package etcd

import (
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestOthersTurnsAreNotWaitingTime verifies that turns of others do not use up the waiting
// time: a Delete that waits for quorum lets another member have its turn, which takes
// longer than the waiting time. A condition that clears shortly afterwards is still waited
// for.
func TestOthersTurnsAreNotWaitingTime(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp1", "cp2", "cp3")
	f.calm(specs["cp1"])
	f.kill("cp3", false)
	cl := f.clusters.of(specs["cp1"])
	done := make(chan error, 1)
	go func() { done <- f.clusters.Delete(f.context(), specs["cp2"], DeleteOptions{}) }()
	for cl.turns.Empty() {
		time.Sleep(time.Millisecond)
	}
	other := cl.turns.Enter()
	if err := other.Wait(f.context()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(cl.pace.ConditionTimeout + 100*time.Millisecond)
	other.Leave()
	time.Sleep(500 * time.Millisecond)
	if _, err := f.machine("cp3").Change(f.context(), host.Change{}, machine.Action{Verb: machine.Start}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("the other member's turn was counted: %v", err)
	}
	f.wantRoster(specs["cp1"], "cp1 cp3")
}

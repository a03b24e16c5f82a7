package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// hanging is a machine that accepts connections and whose commands never end.
type hanging struct{ machine.Machine }

func (hanging) Observe(ctx context.Context, _ host.Query) (host.Facts, error) {
	<-ctx.Done()
	return host.Facts{}, ctx.Err()
}

// TestObserveWithAHangingMachine: a machine that hangs takes a limited time of what observes others. It counts as not
// reached, also if the user has abandoned it.
func TestObserveWithAHangingMachine(t *testing.T) {
	cl, specs, _ := reimagedCluster(t, trio...)
	all, stuck := cl.machine, specs["cp3"].Host
	cl.machine = func(h *host.Host) machine.Machine {
		if h.Address() == stuck.Address() {
			return hanging{all(h)}
		}
		return all(h)
	}
	cl.pace.Answer = 10 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	one := specs["cp1"]
	for _, m := range cl.observeAll(ctx, one) {
		if hangs := m.Name == "cp3"; m.Reached() == hangs || hangs && !errors.Is(m.Err, host.ErrNoAnswer) {
			t.Errorf("%s: %v", m.Name, m.Err)
		}
	}
	one.Abandoned = host.AbandonedAt(stuck.Address())
	if d := cl.decideRestore(ctx, one, cl.observeCluster(ctx, one), true); d.Case != restoreRefuse ||
		!strings.Contains(d.Reason, "cp3") {
		t.Errorf("a restore beside it: %+v", d)
	}
	one.Former = stuck
	if err := cl.clearFormer(ctx, one); err != nil {
		t.Errorf("as the former machine of a member: %v", err)
	}
	if ctx.Err() != nil {
		t.Error("it took the time of the operation")
	}
}

// TestCreateWithAHangingMachine: a member is created, and the destroy of the one on the machine that hangs is
// refused, long before the operation ends.
func TestCreateWithAHangingMachine(t *testing.T) {
	t.Parallel()
	f := newSmallFleet(t)
	f.create(f.specs("cp1"), "cp1")
	specs := f.specs("cp1", "cp2", "cp3")
	f.machine("cp3").hangs = true
	f.clusters = f.coordinator()
	f.clusters.pace.Answer = 200 * time.Millisecond
	ctx, cancel := context.WithTimeout(f.context(), time.Minute)
	defer cancel()
	if _, err := f.clusters.Create(ctx, specs["cp2"]); err != nil {
		t.Fatal(err)
	}
	f.wantRoster(specs["cp1"], "cp1 cp2")
	err := f.clusters.Delete(ctx, specs["cp3"], DeleteOptions{Abandon: host.AbandonedAt(f.address("cp3"))})
	if err == nil || !strings.Contains(err.Error(), host.ErrNoAnswer.Error()) || !problem.Untouched(err) {
		t.Errorf("delete on the machine that hangs: %v", err)
	}
	if ctx.Err() != nil {
		t.Error("it took the time of the operation")
	}
}

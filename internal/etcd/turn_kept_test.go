package etcd

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/wait"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestKeptTurn: while the turn is kept, the wait for the rules lets no other member go first, and ends at its limit.
func TestKeptTurn(t *testing.T) {
	t.Parallel()
	for _, v := range []*membership.View{nil, {}} {
		cl := &cluster{pace: pace{Poll: time.Millisecond, ConditionTimeout: 20 * time.Millisecond}}
		turn := cl.turns.Enter()
		if err := turn.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		other := cl.turns.Enter()
		short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		turn.Keep()
		var since wait.Clock
		over, err := false, error(nil)
		for !over && err == nil {
			over, err = cl.waitForRules(short, v, turn, &since)
		}
		if err != nil || short.Err() != nil {
			t.Errorf("the wait did not end at its limit: %v", err)
		}
		now, cancel := context.WithCancel(t.Context())
		cancel()
		if other.Wait(now) == nil {
			t.Error("the other turn was granted")
		}
		turn.Free()
		if waiting, _ := turn.Others(); waiting != 1 {
			t.Errorf("%d wait after the turn was freed", waiting)
		}
	}
}

// disturbed is the outage of a member. disturb is called when it has begun.
type disturbed struct {
	announced
	disturb func()
}

func (d disturbed) Begins(ctx context.Context) error {
	err := d.announced.Begins(ctx)
	d.disturb()
	return err
}

// away stops the server of a member, and starts it after a time.
func (f *fleet) away(name string, d time.Duration) {
	m := f.machine(name)
	m.mu.Lock()
	m.stop()
	m.mu.Unlock()
	time.AfterFunc(d, func() {
		if _, err := m.Change(f.context(), host.Change{}, machine.Action{Verb: machine.Start}); err != nil {
			f.t.Error(err)
		}
	})
}

// leaderAndFollower returns the name of the leader, and one of the others, once all are healthy.
func (f *fleet) leaderAndFollower(specs map[string]Spec) (leader string, other Spec) {
	if leader = leaderOf(f.calm(specs["cp1"])); leader == "cp1" {
		return leader, specs["cp2"]
	}
	return leader, specs["cp1"]
}

// TestOneOutageAtATime: a voter that is away when the outage of a member has begun gives no other member its turn.
func TestOneOutageAtATime(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.three(0)
	cl := f.clusters.of(specs["cp1"])
	cl.pace.ConditionTimeout = 10 * time.Second
	leader, s := f.leaderAndFollower(specs)
	s.ExtraArgs = map[string]string{"max-txn-ops": "777"}
	log, granted := &outageLog{}, make(chan int, 1)
	s.Outage = disturbed{announced{log, s.Name}, func() {
		f.away(leader, time.Second)
		other := cl.turns.Enter()
		go func() {
			defer other.Leave()
			if err := other.Wait(f.context()); err != nil {
				t.Error(err)
			}
			log.mu.Lock()
			defer log.mu.Unlock()
			granted <- log.now
		}()
	}}
	if _, err := f.clusters.Update(f.context(), s); err != nil {
		t.Fatal(err)
	}
	if now := <-granted; now != 0 || log.now != 0 || len(log.order) != 1 {
		t.Errorf("another member had its turn during %d outages; %d are left of %v", now, log.now, log.order)
	}
}

// TestLeaderLeavesLast: a leader lets a follower leave before its own outage begins, not in it.
func TestLeaderLeavesLast(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.three(0)
	leader, follower := f.leaderAndFollower(specs)
	names := []string{leader, follower.Name}
	log := &outageLog{}
	for _, name := range names {
		s := specs[name]
		s.Outage = announced{log, name}
		specs[name] = s
	}
	cl := f.clusters.of(specs["cp1"])
	hold := cl.turns.Enter()
	done := make(chan error, len(names))
	for i, name := range names {
		go func() { done <- f.clusters.Delete(f.context(), specs[name], DeleteOptions{}) }()
		for waiting := 0; waiting <= i; waiting, _ = hold.Others() {
			time.Sleep(time.Millisecond)
		}
	}
	hold.Leave()
	if err := errors.Join(<-done, <-done); err != nil {
		t.Fatal(err)
	}
	if want := []string{names[1], leader}; !slices.Equal(log.order, want) {
		t.Errorf("announced %v, want %v", log.order, want)
	}
}

// TestOutageIsNoWaitingTime: the time in which an outage begins is not waited for the rules. A voter that is away for a
// moment after it is still waited for.
func TestOutageIsNoWaitingTime(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.three(0)
	cl := f.clusters.of(specs["cp1"])
	cl.pace.ConditionTimeout = 5 * time.Second
	for what, change := range map[string]func(Spec) error{
		"update":   func(s Spec) error { _, err := f.clusters.Update(f.context(), s); return err },
		"deletion": func(s Spec) error { return f.clusters.Delete(f.context(), s, DeleteOptions{}) },
	} {
		leader, other := f.leaderAndFollower(specs)
		other.ExtraArgs = map[string]string{"max-txn-ops": "777"}
		other.Outage = disturbed{announced{&outageLog{}, other.Name}, func() {
			time.Sleep(cl.pace.ConditionTimeout + time.Second)
			f.away(leader, 500*time.Millisecond)
		}}
		if err := change(other); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		f.create(specs, other.Name)
	}
}

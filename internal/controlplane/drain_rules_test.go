package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// TestDrain: a replica leaves rotation only if its change is allowed, its API server will stop,
// and the load balancers agree. The lock is held for the change, and for nothing else.
func TestDrain(t *testing.T) {
	refused := &problem.Problem{Summary: "refused"} // may have changed something, so it is not repeated
	for _, c := range []struct {
		name           string
		stops          bool
		check, refusal error
		calls          []string
	}{
		{name: "nothing stops"},
		{name: "the API server stops", stops: true, calls: []string{"drain"}},
		{name: "the change is not allowed", stops: true, check: refused},
		{name: "it is not allowed, and nothing stops", check: refused},
		{name: "the load balancers refuse", stops: true, refusal: refused, calls: []string{"drain"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			registrar := &recordingRegistrar{fail: c.refusal}
			s, checks := testSpec(t), 0
			s.Registrar = registrar
			r := NewReplicas(nil)
			lock, drained, err := r.drain(t.Context(), s, drainOptions{
				stops: c.stops, check: func(context.Context, heldLock) error { checks++; return c.check },
			})
			allowed := c.check == nil && c.refusal == nil
			if (err == nil) != allowed || drained != (allowed && c.stops) || checks != 1 {
				t.Errorf("drained %t after %d checks: %v", drained, checks, err)
			}
			if calls := registrar.take(); !slices.Equal(calls, c.calls) {
				t.Errorf("calls %q, want %q", calls, c.calls)
			}
			if free := isFree(t, r, s); free == allowed {
				t.Errorf("another replica may be changed: %t", free)
			}
			if allowed {
				lock.finish(true)
			}
		})
	}
}

// isFree reports whether another replica could be changed now.
func isFree(t *testing.T, r *Replicas, s Spec) bool {
	t.Helper()
	s.Name = "another"
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	lock, err := r.changeLocks.acquire(soon, s)
	if err != nil {
		return false
	}
	defer lock.finish(true)
	return lock.checkEarlierFailure("another") == nil
}

// TestDrainAfterAFailure: once a change of a replica has failed, no other one is drained, and its
// change is not even checked.
func TestDrainAfterAFailure(t *testing.T) {
	registrar := &recordingRegistrar{}
	s := testSpec(t)
	s.Registrar = registrar
	r := NewReplicas(nil)
	failed := s
	failed.Name = "cp9"
	lock, err := r.changeLocks.acquire(t.Context(), failed)
	if err != nil {
		t.Fatal(err)
	}
	lock.finish(false)
	check := func(context.Context, heldLock) error { t.Error("the change is checked"); return nil }
	if _, drained, err := r.drain(t.Context(), s, drainOptions{stops: true, check: check}); err == nil || drained {
		t.Errorf("drained %t, %v", drained, err)
	}
	if calls := registrar.take(); calls != nil {
		t.Errorf("calls %q", calls)
	}
}

// TestFailureIsKept: what changes nothing of a replica whose change has failed does not let other replicas change.
func TestFailureIsKept(t *testing.T) {
	s := calm(t)
	s.Registrar = &recordingRegistrar{members: map[string]string{s.Name: s.ServingAddress()}}
	refused := &problem.Problem{Summary: "refused"} // may have changed something, so it is not repeated
	for name, harmless := range map[string]func(*Replicas){
		"a drain that is refused": func(r *Replicas) {
			check := func(context.Context, heldLock) error { return refused }
			if _, _, err := r.drain(t.Context(), s, drainOptions{stops: true, check: check}); !errors.Is(err, refused) {
				t.Error(err)
			}
		},
		"the return of others": func(r *Replicas) {
			r.returnToRotation(t.Context(), s, false, time.Now().Add(time.Second))
		},
		"a check of the rotation": func(r *Replicas) {
			f := bare()
			f.Record.ClusterID, f.Record.Name = s.Bundle.ClusterID, s.Name
			rotated := s
			rotated.Bundle = cptest.At(t, s.Bundle, pki.KubernetesPart, 1)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_ = r.awaitRotation(ctx, rotated, f)
		},
		"a stop for a restore": func(r *Replicas) {
			_, unlock, err := r.changeLocks.acquireToStop(t.Context(), s, nil)
			if err != nil {
				t.Fatal(err)
			}
			unlock()
		},
		"a deletion that is superseded": func(r *Replicas) {
			err := r.drainForDelete(t.Context(), s, DeleteOptions{Superseded: func() bool { return true }})
			if !errors.Is(err, errSuperseded) {
				t.Error(err)
			}
		},
	} {
		r := NewReplicas(func(string) *host.Host { return unreachable(t).Host })
		lock, err := r.changeLocks.acquire(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		lock.finish(false)
		if harmless(r); isFree(t, r, s) {
			t.Errorf("%s has cleared the failure", name)
		}
	}
}

// TestNothingHappensWithoutTheLock: an operation that is cancelled while it waits for the lock
// says so, and has drained nothing.
func TestNothingHappensWithoutTheLock(t *testing.T) {
	registrar := &recordingRegistrar{}
	s := leaving(t, false, registrar)
	r := NewReplicas(nil)
	other := s
	other.Name = "cp2"
	lock, err := r.changeLocks.acquire(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.finish(true)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, drained, err := r.drain(ctx, s, drainOptions{stops: true}); drained || !errors.Is(err, context.Canceled) {
		t.Errorf("drained %t, %v", drained, err)
	}
	if err := r.drainForDelete(ctx, s, DeleteOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("deleted: %v", err)
	}
	if calls := registrar.take(); calls != nil {
		t.Errorf("calls %q", calls)
	}
}

// TestWaitForAReplacement: the wait is extended only as long as this process creates a replica
// that may take over, and not if its creation waits for the change that waits.
func TestWaitForAReplacement(t *testing.T) {
	untouched := &problem.Problem{Summary: "refused", Unchanged: problem.Nothing}
	for _, c := range []struct {
		name                        string
		duringMember, last, creates bool
		want                        time.Duration
	}{
		{"the last one, another is created", false, true, true, 5 * time.Minute},
		{"the last one, another is created after a member's change", true, true, true, 31 * time.Second},
		{"the last one, none is created", false, true, false, 31 * time.Second},
		{"not the last one, another is created", false, false, true, 31 * time.Second},
	} {
		s := calm(t)
		synctest.Test(t, func(t *testing.T) {
			r, begin := NewReplicas(nil), time.Now()
			if c.creates {
				other := s
				other.Name = "cp9"
				defer r.inProgress.create(other)(nil)
			}
			refusal := fmt.Errorf("%w: %w", errNotDrained, untouched)
			if c.last {
				refusal = fmt.Errorf("%w: %w", errNotDrained, &lastRefusal{untouched})
			}
			err := r.waitForOthers(t.Context(), s, c.duringMember, func() error {
				if time.Since(begin) >= 5*time.Minute {
					return nil
				}
				return refusal
			})
			if took := time.Since(begin); took != c.want || (err == nil) != (c.want == 5*time.Minute) {
				t.Errorf("%s: %v after %s, want the end after %s", c.name, err, took, c.want)
			}
		})
	}
}

// TestLastReplicaWaitsForAnother: a Delete waits while this process creates a replica, however
// long that takes, and for a moment if another one is registered, which may come back.
func TestLastReplicaWaitsForAnother(t *testing.T) {
	for _, c := range []struct {
		name              string
		creates, others   bool
		comesAfter, takes time.Duration
		protected, leaves bool
	}{
		{name: "a create", creates: true, comesAfter: 3 * time.Minute, takes: 3 * time.Minute, leaves: true},
		{
			name: "another comes back", others: true, protected: true, comesAfter: 10 * time.Second, takes: 10 * time.Second,
			leaves: true,
		},
		{
			name: "another does not come back in time", others: true, protected: true, comesAfter: time.Minute,
			takes: 31 * time.Second,
		},
		{name: "there is no other one", protected: true, comesAfter: 10 * time.Second},
	} {
		registrar := &recordingRegistrar{last: true}
		s := leaving(t, c.protected, registrar)
		if c.others {
			registrar.members["cp2"] = "10.0.0.12:6443"
		}
		synctest.Test(t, func(t *testing.T) {
			r, begin := NewReplicas(nil), time.Now()
			done := func(error) {}
			if c.creates {
				other := s
				other.Name = "cp9"
				done = r.inProgress.create(other)
			}
			time.AfterFunc(c.comesAfter, func() {
				registrar.mu.Lock()
				registrar.last = false
				registrar.mu.Unlock()
				done(nil)
			})
			err := r.drainForDelete(t.Context(), s, DeleteOptions{})
			if took := time.Since(begin); (err == nil) != c.leaves || took < c.takes || took > c.takes+2*time.Second {
				t.Errorf("%s: %v after %s", c.name, err, took)
			}
			var p *problem.Problem
			if err != nil && (!errors.As(err, &p) || p.Detail != "NAME STATE") {
				t.Errorf("%s: what the load balancers report is missing: %v", c.name, err)
			}
			if !isFree(t, r, s) {
				t.Errorf("%s: a refusal counts as a failed change", c.name)
			}
		})
	}
}

// brokenRegistrar fails after the drain.
type brokenRegistrar struct {
	*recordingRegistrar
	err error
}

func (b brokenRegistrar) Deregister(context.Context, string) error { return b.err }
func (b brokenRegistrar) Undrain(context.Context, string) error    { return b.err }

// TestNotDeregistered: a replica that is still registered, or still drained, is not done.
func TestNotDeregistered(t *testing.T) {
	broken := errors.New("a balancer broke")
	for _, superseded := range []bool{false, true} {
		s := leaving(t, false, &recordingRegistrar{})
		s.Registrar = brokenRegistrar{s.Registrar.(*recordingRegistrar), broken}
		asked := 0
		err := NewReplicas(nil).drainForDelete(t.Context(), s, DeleteOptions{Superseded: func() bool {
			asked++
			return superseded && asked > 1 // a Create begins during the drain
		}})
		if !errors.Is(err, broken) || errors.Is(err, errSuperseded) {
			t.Errorf("superseded %t: %v", superseded, err)
		}
	}
}

// stopping is the registrar of an endpoint that replicas leave by stopping.
type stopping struct{ *recordingRegistrar }

func (stopping) LeavesByStopping() bool { return true }

// TestStopToLeave: a replica that leaves by stopping must have stopped, unless its machine cannot be reached.
func TestStopToLeave(t *testing.T) {
	s := unreachable(t)
	s.Registrar = stopping{}
	if err := stopToLeave(t.Context(), s); err != nil {
		t.Errorf("a machine that cannot be reached: %v", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := stopToLeave(cancelled, s); !errors.Is(err, context.Canceled) {
		t.Errorf("a stop that was cancelled: %v", err)
	}
	s.Registrar = &recordingRegistrar{}
	if err := stopToLeave(cancelled, s); err != nil {
		t.Errorf("a replica that leaves in another way is stopped: %v", err)
	}
}

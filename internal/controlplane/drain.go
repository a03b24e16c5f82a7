package controlplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// errNotDrained means that the endpoint did not allow the replica to leave rotation.
var errNotDrained = errors.New("not drained")

// drainOptions describes how a replica temporarily leaves rotation.
type drainOptions struct {
	check func(context.Context, heldLock) error // returns why the change is not allowed; nil allows it
	stops bool                                  // the API server will stop
	// duringMember means that the drain is for a change of the etcd member on the same machine.
	// All other member changes wait for it.
	duringMember bool
}

// drain takes the lock for a change of the replica, checks whether the change is allowed, and
// takes the replica out of rotation if its API server will stop. The caller releases the lock. The
// load balancers decide whether there is anything to drain. A replica that they consider down
// may always leave, so that a broken control plane can be repaired.
func (r *Replicas) drain(ctx context.Context, s Spec, options drainOptions) (lock heldLock, drained bool, err error) {
	err = r.waitForOthers(ctx, s, options.duringMember, func() error {
		if lock, err = r.changeLocks.acquire(ctx, s); err != nil {
			return err
		}
		held := lock.context(ctx)
		if err = lock.checkEarlierFailure(s.Machine()); err == nil && options.check != nil {
			err = options.check(held, lock)
		}
		if err == nil && options.stops {
			problem.Progress(ctx, "%s: draining", s.Machine())
			err = drainRefused(s, s.Registrar.Drain(held, s.Name))
			drained = err == nil
		}
		if err != nil {
			lock.release() // nothing was changed
		}
		return err
	})
	return lock, drained, err
}

// drainRefused wraps a refusal of the registrar.
func drainRefused(s Spec, err error) error {
	if err != nil {
		return fmt.Errorf("drain replica %s: %w: %w", s.Machine(), errNotDrained, err)
	}
	return nil
}

// lastServing reports whether a refusal means that no other replica serves.
func lastServing(err error) bool {
	var refusal interface{ LastServing() bool }
	return errors.As(err, &refusal) && refusal.LastServing()
}

// waitForOthers retries f while the state of other replicas prevents the change and nothing was
// changed. Between attempts it returns replicas to rotation that an interrupted change has left
// out. The time spent waiting for the lock does not count.
func (r *Replicas) waitForOthers(ctx context.Context, s Spec, duringMember bool, f func() error) error {
	w := drainWait{duringMember: duringMember}
	for {
		err := f()
		others := errors.Is(err, errNotDrained) || errors.Is(err, errRotationNotYet) || errors.Is(err, errNotAllReady)
		if !others || !problem.Untouched(err) || w.expired(time.Now()) {
			return err
		}
		if w.begin(time.Now()) {
			problem.Progress(ctx, "%s: waiting: %v", s.Machine(), err)
		}
		// A replica whose machine was rebuilt is created after the members in Terraform's
		// graph. A member change must not wait for it while another replica serves.
		forget := duringMember && !lastServing(err)
		orphans := r.returnToRotation(ctx, s, forget, w.end)
		pending, _ := r.inProgress.others(s)
		if w.update(time.Now(), orphans, lastServing(err) && len(pending) > 0) {
			return futileWaitProblem(err, orphans)
		}
		select {
		case <-time.After(drainInterval):
		case <-ctx.Done():
			return fmt.Errorf("%w while waiting: %w", ctx.Err(), err)
		}
	}
}

// How long a replica waits until the others allow it to leave rotation. They may be returning,
// or being deleted, in the same run. Detecting that a machine is down takes a connection
// timeout (10 s).
const (
	drainTimeout  = 30 * time.Second
	drainInterval = time.Second
	// orphanTimeout applies to an etcd member that was removed and will be created again. If
	// this process creates it, that begins as soon as the member was removed.
	orphanTimeout = 5 * time.Second
)

// orphan is a replica that stays out of rotation until its only etcd member, on the
// same machine, is created.
type orphan struct {
	machine  string
	changing bool // this process has begun to change that member
}

// drainWait is the time that one replica has waited for others.
type drainWait struct {
	// duringMember means that all changes of etcd members wait for this one, so none of them
	// can end the wait.
	duringMember bool

	end           time.Time // when it gives up; zero: not waiting yet
	orphanedSince time.Time // since when it waits for a member that no process creates; zero: it does not
}

// expired reports whether the waiting time is over.
func (w *drainWait) expired(now time.Time) bool { return !w.end.IsZero() && now.After(w.end) }

// begin starts the wait. It reports whether this is the first time.
func (w *drainWait) begin(now time.Time) bool {
	if !w.end.IsZero() {
		return false
	}
	w.end = now.Add(drainTimeout)
	return true
}

// update records the state of the other replicas and reports whether waiting is futile. The
// waiting time is extended while this process makes the required change. Waiting is futile if
// only this process could make that change and it is not doing so. replacement means that another
// replica is being created that may take over.
func (w *drainWait) update(now time.Time, orphans []orphan, replacement bool) (futile bool) {
	extended := replacement && !w.duringMember
	orphaned := false
	for _, o := range orphans {
		if o.changing && !w.duringMember {
			extended = true
		} else {
			orphaned = true
		}
	}
	if !orphaned {
		w.orphanedSince = time.Time{}
	} else if w.orphanedSince.IsZero() {
		w.orphanedSince = now
	}
	if orphaned && now.Sub(w.orphanedSince) >= orphanTimeout {
		return true
	}
	if extended {
		w.end = now.Add(drainTimeout)
	}
	return false
}

// futileWaitProblem explains a refusal that waiting cannot resolve.
func futileWaitProblem(err error, orphans []orphan) error {
	var p *problem.Problem
	if !errors.As(err, &p) {
		return err
	}
	var machines []string
	for _, o := range orphans {
		machines = append(machines, o.machine)
	}
	explained := *p
	explained.Cause += "; " + strings.Join(machines, ", ") +
		" stays out of rotation until the etcd member on its machine is created again, which would wait for this"
	explained.Next = "apply again: that member is created first. Replace one etcd member at a time."
	explained.Err = err
	return &explained
}

// returnToRotation returns other replicas to rotation that an interrupted change has left out:
// replicas that serve (after a power failure, for example) and replicas that are still paused.
// Otherwise an operation could wait for a replica whose own change Terraform runs later. It
// stops at end. It returns the replicas that cannot return before their etcd member is created.
//
// With forget, a registration whose machine has no replica, as after a rebuild, is removed from
// the load balancers: the replica registers again when it is created.
func (r *Replicas) returnToRotation(ctx context.Context, s Spec, forget bool, end time.Time) (orphans []orphan) {
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	// Under the lock, no other replica is leaving or returning, in any process.
	lock, err := r.changeLocks.acquire(ctx, s)
	if err != nil {
		problem.Detail(ctx, "%s: %v", s.Machine(), err)
		return nil
	}
	defer lock.release()
	ctx = lock.context(ctx)
	others, err := s.Registrar.OutOfRotation(ctx)
	if err != nil {
		problem.Detail(ctx, "%s: %v", s.Machine(), err)
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		// One that is being deleted has left for good, and its machine has its record until the end.
		if name == s.Name || r.paused.has(s.Bundle.ClusterID, name) || r.inProgress.isDeleted(s.Bundle.ClusterID, name) {
			continue
		}
		alone, err := r.returnReplica(ctx, s, name, others[name], forget)
		if err != nil {
			problem.Detail(ctx, "%s: not returned to rotation: %v", name, err)
		}
		if alone != nil {
			orphans = append(orphans, *alone)
		}
	}
	return orphans
}

// returnReplica returns a replica to rotation if no process is changing it and it has no other
// problem. A replica whose only etcd member does not run is returned as an orphan. With forget,
// a replica whose machine has none is deregistered.
func (r *Replicas) returnReplica(ctx context.Context, s Spec, name, address string, forget bool) (*orphan, error) {
	at, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("read the address of replica %s: %w", name, err)
	}
	if err := checkListed(ctx, s.Registrar, name, at); err != nil { // one balancer alone may say that it is there
		return nil, err
	}
	b := StackedMember{
		Host: r.machine(at), Bundle: s.Bundle,
		Registrar: func(Recorded) (Registrar, error) { return s.Registrar, nil },
	}
	other, state, err := b.replica(ctx)
	if err == nil && state.absent && forget {
		problem.Progress(ctx, "%s (%s): its machine holds no replica: removing it from the balancers until it is created "+
			"again", name, at)
		return nil, s.Registrar.Deregister(ctx, name)
	}
	if other == nil || err != nil || other.Name != name {
		return nil, err
	}
	if state.orphan {
		return &orphan{machine: other.Machine(), changing: r.inProgress.changesMember(at)}, nil
	}
	if state.paused {
		err = startAndRegister(ctx, *other, release.Components())
	} else {
		var serving bool
		if serving, err = other.client().Serves(ctx); err == nil && !serving {
			return nil, nil
		}
		if err == nil {
			err = other.Registrar.Register(ctx, name, other.ServingAddress())
		}
	}
	if err != nil {
		return nil, err
	}
	problem.Progress(ctx, "%s: back in rotation after an interrupted change", other.Machine())
	return nil, nil
}

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// errNotDrained means that the endpoint did not allow the replica to leave rotation.
var errNotDrained = errors.New("not drained")

// drainOptions describes how a replica temporarily leaves rotation.
type drainOptions struct {
	check func(context.Context, turn) error // returns why the change is not allowed; nil allows it
	stops bool                              // the API server will stop
	// duringMember means that the drain is for a change of the etcd member on the same machine.
	// All other member changes wait for it.
	duringMember bool
}

// drain takes the turn for a change of the replica, checks whether the change is allowed, and
// takes the replica out of rotation if its API server will stop. The caller ends the turn. The
// load balancers decide whether there is anything to drain. A replica that they consider down
// may always leave, so that a broken control plane can be repaired.
func (r *Replicas) drain(ctx context.Context, s Spec, way drainOptions) (t turn, drained bool, err error) {
	err = r.waitForOthers(ctx, s, way.duringMember, func() error {
		if t, err = r.turns.take(ctx, s); err != nil {
			return err
		}
		held := t.context(ctx)
		if err = t.refuse(s.Machine()); err == nil && way.check != nil {
			err = way.check(held, t)
		}
		if err == nil && way.stops {
			problem.Progress(ctx, "%s: draining", s.Machine())
			err = drainRefused(s, s.Registrar.Drain(held, s.Name))
			drained = err == nil
		}
		if err != nil {
			t.end(true) // nothing was changed
		}
		return err
	})
	return t, drained, err
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
// out. The time spent waiting for the turn does not count.
func (r *Replicas) waitForOthers(ctx context.Context, s Spec, duringMember bool, f func() error) error {
	p := drainWait{duringMember: duringMember}
	for {
		err := f()
		others := errors.Is(err, errNotDrained) || errors.Is(err, errRotationNotYet) || errors.Is(err, errNotAllReady)
		if !others || !problem.Untouched(err) || p.expired(time.Now()) {
			return err
		}
		if p.begin(time.Now()) {
			problem.Progress(ctx, "%s: waiting: %v", s.Machine(), err)
		}
		// A replica whose machine was rebuilt is created after the members in Terraform's
		// graph. A member change must not wait for it while another replica serves.
		forget := duringMember && !lastServing(err)
		orphans := r.returnToRotation(ctx, s, forget, p.end)
		pending, _ := r.inProgress.others(s)
		if p.update(time.Now(), orphans, lastServing(err) && len(pending) > 0) {
			return waitInVain(err, orphans)
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
func (p *drainWait) expired(now time.Time) bool { return !p.end.IsZero() && now.After(p.end) }

// begin starts the wait. It reports whether this is the first time.
func (p *drainWait) begin(now time.Time) bool {
	if !p.end.IsZero() {
		return false
	}
	p.end = now.Add(drainTimeout)
	return true
}

// update records the state of the other replicas and reports whether waiting is futile. The
// waiting time is extended while this process makes the required change. Waiting is futile if
// only this process could make that change and it is not doing so. comes means that another
// replica is being created that may take over.
func (p *drainWait) update(now time.Time, orphans []orphan, comes bool) (futile bool) {
	helped := comes && !p.duringMember
	alone := false
	for _, o := range orphans {
		if o.changing && !p.duringMember {
			helped = true
		} else {
			alone = true
		}
	}
	if !alone {
		p.orphanedSince = time.Time{}
	} else if p.orphanedSince.IsZero() {
		p.orphanedSince = now
	}
	if alone && now.Sub(p.orphanedSince) >= orphanTimeout {
		return true
	}
	if helped {
		p.end = now.Add(drainTimeout)
	}
	return false
}

// waitInVain explains a refusal that waiting cannot resolve.
func waitInVain(err error, orphans []orphan) error {
	var p *problem.Problem
	if !errors.As(err, &p) {
		return err
	}
	var machines []string
	for _, o := range orphans {
		machines = append(machines, o.machine)
	}
	told := *p
	told.Cause += "; " + strings.Join(machines, ", ") + " stays out of rotation until the etcd member on its machine is created again, which would wait for this"
	told.Next = "apply again: that member is created first. Replace one etcd member at a time."
	told.Err = err
	return &told
}

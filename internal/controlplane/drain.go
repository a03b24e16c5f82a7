package controlplane

import (
	"context"
	"errors"
	"fmt"
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

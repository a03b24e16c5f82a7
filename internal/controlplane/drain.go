package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// errNotDrained: the endpoint did not let the replica out of rotation.
var errNotDrained = errors.New("not drained")

// drainOptions is how a replica leaves rotation for a while.
type drainOptions struct {
	check func(context.Context, turn) error // whether its change may be; nil: it may
	stops bool                              // its API server is going to stop
	// duringMember: it is for a change of the etcd member beside it, for which all
	// other changes of members wait.
	duringMember bool
}

// drain takes the turn for a change of the replica, asks whether the change
// may be, and, where its API server is going to stop, takes it out of rotation.
// The caller ends the turn. Whether there is anything to drain is the balancers'
// to say: one that they know to serve nothing may always go, so that a broken
// control plane can be repaired.
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
			t.end(true) // it is as it was
		}
		return err
	})
	return t, drained, err
}

// drainRefused passes on the registrar's refusal; a *problem.Problem stays one.
func drainRefused(s Spec, err error) error {
	if err != nil {
		return fmt.Errorf("drain replica %s: %w: %w", s.Machine(), errNotDrained, err)
	}
	return nil
}

// lastServing reports whether a refusal says that no other replica serves.
func lastServing(err error) bool {
	var refusal interface{ LastServing() bool }
	return errors.As(err, &refusal) && refusal.LastServing()
}

// waitForOthers repeats f while the state of the others keeps the replica in
// rotation, at its stage of one, or at its version, and nothing was changed; and
// meanwhile brings back others that stay out for no reason. The wait for the turn,
// which lasts as long as the changes of others do, costs no patience.
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
		// graph: a member's change must not wait for it while another one serves.
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

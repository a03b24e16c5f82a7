package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// How long a replica waits for the others to let it out of rotation: they may
// be coming back, or leaving for good, in the same run. A machine that is dead
// takes a connection's time limit (10 s) to be known as such.
const (
	asidePatience = 30 * time.Second
	asideInterval = time.Second
)

// errNotDrained: the endpoint did not let the replica out of rotation.
var errNotDrained = errors.New("not drained")

// stepAside takes the turn for a change of the replica, asks whether the change
// may be, and, where restart says that its API server is going to stop, takes it
// out of rotation. The caller ends the turn.
//
// A replica that does not serve has nothing to drain, and waiting for leave to
// do so would keep a broken control plane from being repaired.
func (r *Replicas) stepAside(ctx context.Context, s Spec, may func(turn) error, restart bool) (t turn, drained bool, err error) {
	err = r.patiently(ctx, s, func() error {
		if t, err = r.turns.take(ctx, s.Bundle.ClusterID, s.Name); err != nil {
			return err
		}
		if err = t.refuse(s.machine()); err == nil {
			err = may(t)
		}
		if err == nil && restart && serves(ctx, s, systemd{}) {
			problem.Progress(ctx, "%s: draining", s.machine())
			err = drain(ctx, s, false)
			drained = err == nil
		}
		if err != nil {
			t.end(true) // it is as it was
		}
		return err
	})
	return t, drained, err
}

// drain passes on the registrar's refusal; a *problem.Problem stays one.
func drain(ctx context.Context, s Spec, forGood bool) error {
	if err := s.Registrar.Drain(ctx, s.Name, forGood); err != nil {
		return fmt.Errorf("drain replica %s: %w: %w", s.machine(), errNotDrained, err)
	}
	return nil
}

// patiently repeats f while the state of the others keeps the replica in
// rotation, at its stage of one, or at its version, and nothing was changed; and
// meanwhile brings back others that stay out for no reason. The wait for the turn,
// which lasts as long as the changes of others do, costs no patience.
func (r *Replicas) patiently(ctx context.Context, s Spec, f func() error) error {
	var end time.Time
	for {
		err := f()
		others := errors.Is(err, errNotDrained) || errors.Is(err, errOutOfStep) || errors.Is(err, errNotAllReady)
		if !others || !problem.Untouched(err) || !end.IsZero() && time.Now().After(end) {
			return err
		}
		if end.IsZero() {
			end = time.Now().Add(asidePatience)
			problem.Progress(ctx, "%s: waiting: %v", s.machine(), err)
		}
		r.rejoin(ctx, s, end)
		select {
		case <-time.After(asideInterval):
		case <-ctx.Done():
			return fmt.Errorf("%w while waiting: %w", ctx.Err(), err)
		}
	}
}

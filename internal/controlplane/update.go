package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// errNotDrained: the endpoint kept the replica in rotation, so nothing was changed.
var errNotDrained = errors.New("still in rotation")

// Update brings the replica to s: drained, changed, ready, registered; one
// replica at a time; components restarted only when they must be.
func (r *Replicas) Update(ctx context.Context, s Spec) (Status, error) {
	rt := systemd{}
	if err := s.validate(); err != nil {
		return Status{}, err
	}
	f, err := observe(ctx, s, rt)
	if err != nil {
		return Status{}, err
	}
	if err := changeable(s, f); err != nil {
		return Status{}, err
	}
	now := time.Now()
	if len(drift(s, rt, f, now)) == 0 {
		return reenter(ctx, s, rt)
	}
	d, err := decide(s, rt, f, now)
	if err != nil {
		return Status{}, err
	}
	// Before leaving rotation, so that an upload lengthens nothing.
	if err := install(ctx, s); err != nil {
		return Status{}, err
	}
	turn, err := r.turns.take(ctx, s.Bundle.ClusterID, s.Name)
	if err != nil {
		return Status{}, err
	}
	if err := turn.refuse(s.machine()); err != nil {
		turn.end(true)
		return Status{}, err
	}
	status, err := change(ctx, s, rt, d)
	// A refused drain has left the replica as it was.
	turn.end(err == nil || errors.Is(err, errNotDrained))
	return status, err
}

// reenter registers a replica on whose machine nothing differs. What kept it
// out of rotation may be over only now: an API server needs a while to find an
// etcd member that has come back.
func reenter(ctx context.Context, s Spec, rt runtime) (Status, error) {
	if err := await(ctx, s, rt, desired{}); err != nil {
		return Status{}, unregistered(err, problem.Nothing)
	}
	return enter(ctx, s, rt)
}

// change makes d true while the replica has the turn.
func change(ctx context.Context, s Spec, rt runtime, d desired) (Status, error) {
	drained, err := leave(ctx, s, rt, d)
	if err != nil {
		return Status{}, err
	}
	rotation := "it stays registered as it was."
	if drained {
		rotation = "it is left out of rotation: the endpoint sends it nothing until it is ready and applied again."
	}
	if err := bringUp(ctx, s, rt, d); err != nil {
		return Status{}, unregistered(err, rotation)
	}
	return enter(ctx, s, rt)
}

// leave drains the replica if its API server is to be restarted and serves
// now. One that does not serve has nothing to drain, and waiting for leave to
// do so would keep a broken control plane from being repaired.
func leave(ctx context.Context, s Spec, rt runtime, d desired) (drained bool, err error) {
	if !d.restarts(APIServer) || !serves(ctx, s, rt) {
		return false, nil
	}
	problem.Progress(ctx, "%s: draining", s.machine())
	if err := s.Registrar.Drain(ctx, s.Name); err != nil {
		return false, notDrained(s, err)
	}
	return true, nil
}

// notDrained passes on the registrar's refusal; a *problem.Problem stays one.
func notDrained(s Spec, err error) error {
	return fmt.Errorf("drain replica %s: %w: %w", s.machine(), errNotDrained, err)
}

// serves asks the replica's API server whether it is ready.
func serves(ctx context.Context, s Spec, rt runtime) bool {
	for _, c := range components(s, rt) {
		if c.name == APIServer {
			return askOnce(ctx, s, c) == healthy
		}
	}
	return false
}

// changeable refuses before the first change: a machine that is another
// replica's, and a version that cannot be reached in one step.
func changeable(s Spec, f found) error {
	refusal := &problem.Problem{Summary: "control-plane replica cannot be changed", Host: s.machine(), Unchanged: problem.Nothing}
	if failed := foreignChecks(s, f); len(failed) > 0 {
		refusal.Cause = strings.Join(failed, "; ")
		refusal.Next = "check the replica's host address."
		return refusal
	}
	running := f.version(APIServer)
	if running == "" {
		return nil
	}
	if err := ValidateStep(running, s.Version); err != nil {
		refusal.Attribute, refusal.Cause, refusal.Err = "version", err.Error(), err
		refusal.Next = "choose a version within one minor of the running one."
		return refusal
	}
	return nil
}

// unregistered adds to a failure where it leaves the replica.
func unregistered(err error, rotation string) error {
	var p *problem.Problem
	if errors.As(err, &p) {
		p.Unchanged = rotation
		return err
	}
	return fmt.Errorf("%w; %s", err, rotation)
}

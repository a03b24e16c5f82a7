package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

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
	if between, further := stepBetween(s, f); further {
		if status, err := r.Update(ctx, between); err != nil {
			return status, err
		}
		if f, err = observe(ctx, s, rt); err != nil {
			return Status{}, err
		}
	}
	return r.update(ctx, s, rt, f)
}

func (r *Replicas) update(ctx context.Context, s Spec, rt runtime, f found) (Status, error) {
	now := time.Now()
	if len(drift(s, rt, f, now)) == 0 {
		status, err := reenter(ctx, s, rt)
		if err != nil {
			return status, err
		}
		return status, r.adopt(ctx, s)
	}
	d, err := decide(s, rt, f, now)
	if err != nil {
		return Status{}, err
	}
	// Before leaving rotation, so that an upload lengthens nothing.
	if err := install(ctx, s); err != nil {
		return Status{}, err
	}
	turn, drained, err := r.stepAside(ctx, s, func() error { return r.mayStep(ctx, s, f) }, d.restarts(APIServer))
	if err != nil {
		return Status{}, err
	}
	status, err := change(ctx, s, rt, d, drained)
	turn.end(err == nil)
	if err != nil {
		return status, err
	}
	return status, r.adopt(ctx, s)
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
func change(ctx context.Context, s Spec, rt runtime, d desired, drained bool) (Status, error) {
	rotation := "it stays registered as it was."
	if drained {
		rotation = "it is left out of rotation: the endpoint sends it nothing until it is ready and applied again."
	}
	if err := bringUp(ctx, s, rt, d); err != nil {
		return Status{}, unregistered(err, rotation)
	}
	return enter(ctx, s, rt)
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

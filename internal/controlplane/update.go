package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Update brings the replica to s: drained, changed, ready, registered; one
// replica at a time; components restarted only when they must be.
func (r *Replicas) Update(ctx context.Context, s Spec) (Status, error) {
	if err := s.Validate(); err != nil {
		return Status{}, err
	}
	held, err := claim(ctx, s)
	if err != nil {
		return Status{}, err
	}
	defer held.Release()
	status, err := r.stages(held.Context(ctx), s)
	if err == nil {
		r.underWay.forget(s)
	}
	return status, err
}

// stages takes the replica to s, by way of the stage of encryption before it where
// that has to come first.
func (r *Replicas) stages(ctx context.Context, s Spec) (Status, error) {
	f, err := inspect(ctx, s.Host, s.Replica)
	if err != nil {
		return Status{}, err
	}
	if err := changeable(s, f); err != nil {
		return Status{}, err
	}
	if between, further := stepBetween(s, f); further {
		if err := between.Validate(); err != nil {
			return Status{}, err
		}
		if status, err := r.stages(ctx, between); err != nil {
			return status, err
		}
		if f, err = inspect(ctx, s.Host, s.Replica); err != nil {
			return Status{}, err
		}
	}
	return r.update(ctx, s, f)
}

func (r *Replicas) update(ctx context.Context, s Spec, f found) (Status, error) {
	now := time.Now()
	if len(drift(s.Replica, f, now)) == 0 && f.record.saysConfigured(s.Replica) {
		status, err := reenter(ctx, s, f)
		if err != nil {
			return status, err
		}
		return status, r.adopt(ctx, s)
	}
	d, err := decide(s.Replica, f, now)
	if err != nil {
		return Status{}, err
	}
	d.stagger(f)
	if d.before = wayBack(ctx, s, f); d.before == nil {
		d.remove = append(d.remove, beforePath)
	}
	way := wayOut{restart: d.restarts(release.APIServer), may: func(ctx context.Context, _ turn) error { return r.mayStep(ctx, s, f) }}
	if changesVersion(s, f) {
		way.may = func(ctx context.Context, t turn) error { return r.mayUpgrade(ctx, s, t) }
	} else if err := install(ctx, s); err != nil { // before leaving rotation, so that an upload lengthens nothing
		return Status{}, err
	}
	if err := bindFirst(ctx, f.asFound(s), d); err != nil {
		return Status{}, err
	}
	turn, drained, err := r.stepAside(ctx, s, way)
	if err != nil {
		return Status{}, err
	}
	status, err := change(turn.context(ctx), s, d, drained)
	turn.end(err == nil)
	if err != nil && d.before == nil && changesVersion(s, f) {
		err = stranded(err)
	}
	if err != nil {
		return status, err
	}
	return status, r.adopt(ctx, s)
}

// reenter registers a replica on whose machine nothing differs. What kept it
// out of rotation may be over only now: an API server needs a while to find an
// etcd member that has come back.
func reenter(ctx context.Context, s Spec, f found) (Status, error) {
	if err := await(ctx, s, desired{}); err != nil {
		return Status{}, unregistered(err, problem.Nothing)
	}
	if f.before != nil {
		if err := settle(ctx, s); err != nil {
			return Status{}, err
		}
	}
	return enter(ctx, s)
}

// change makes d true while the replica has the turn, or takes it back where it
// does not come up. Who cancels wants neither: the next apply goes on.
func change(ctx context.Context, s Spec, d desired, drained bool) (Status, error) {
	if err := bringUp(ctx, s, d); err != nil {
		if d.before != nil && !errors.Is(ctx.Err(), context.Canceled) {
			return Status{}, takeBack(ctx, s, *d.before, err, drained)
		}
		return Status{}, unregistered(err, leftAs(drained))
	}
	if d.before != nil {
		if err := settle(ctx, s); err != nil {
			return Status{}, err
		}
	}
	return enter(ctx, s)
}

// stranded adds to a failure why there was nothing to roll back to.
func stranded(err error) error {
	const why = "nothing to roll back to: the replica was not ready before either"
	var p *problem.Problem
	if errors.As(err, &p) {
		p.Cause += "; " + why
		return err
	}
	return fmt.Errorf("%w; %s", err, why)
}

// changeable refuses before the first change: a machine that is another
// replica's, and a new version together with a stage of a rotation. A version can
// be taken back where it does not come up, a stage on which others may count
// cannot, and definitions of before do not fit the files of after.
func changeable(s Spec, f found) error {
	refusal := &problem.Problem{Summary: "control-plane replica cannot be changed", Host: s.Machine(), Unchanged: problem.Nothing}
	if failed := foreignChecks(s.Replica, f); len(failed) > 0 {
		refusal.Cause = strings.Join(failed, "; ")
		refusal.Next = "check the replica's host address."
		return refusal
	}
	if len(f.obstacles) > 0 {
		refusal.Cause = strings.Join(f.obstacles, "; ")
		refusal.Next = "correct this on the machine and apply again."
		return refusal
	}
	if f.record.ClusterID != "" && changesVersion(s, f) && !sameGenerations(f.record.Generations, s.Bundle.Generations()) {
		has := f.effectiveVersion(release.APIServer)
		refusal.Attribute = "version"
		refusal.Cause = fmt.Sprintf("its version and a stage of a rotation would change together (%s)",
			strings.Join(generationDrift(f.record.Generations, s.Bundle.Generations()), ", "))
		refusal.Next = fmt.Sprintf("set version back to %s and apply, then raise it again: one after the other.", has)
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

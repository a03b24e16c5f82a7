package controlplane

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Delete drains and deregisters the replica, then stops it and cleans the machine. The last
// serving replica stays while its control plane is protected from deletion, or is to continue.
// A machine that now has something else is left unchanged.
func (r *Replicas) Delete(ctx context.Context, s Spec, o DeleteOptions) error {
	if err := s.checkHost(); err != nil {
		return err
	}
	defer r.inProgress.delete(s)()
	err := r.remove(ctx, s, o)
	if errors.Is(err, errSuperseded) {
		problem.Progress(ctx, "%s: left as it is: a create of the same replica has begun", s.Machine())
		return nil
	}
	if err == nil {
		r.inProgress.forget(s)
	}
	return err
}

func (r *Replicas) remove(ctx context.Context, s Spec, o DeleteOptions) error {
	if o.superseded() {
		return errSuperseded
	}
	held, err := takeMachineLease(ctx, s)
	if errors.Is(err, host.ErrUnreachable) {
		return r.abandon(ctx, s, o, err)
	}
	if err != nil {
		return err
	}
	defer held.Release()
	ctx = held.Context(ctx)
	f, err := checkClean(ctx, s)
	if err != nil {
		return err
	}
	uncordonToLeave(ctx, s, o, f)
	if err := r.drainForDelete(ctx, s, o); err != nil {
		return err
	}
	cleaned, err := clean(ctx, s, o, f.HasNode())
	if err != nil || !cleaned || !f.HasNode() {
		return err
	}
	return removeNode(ctx, s)
}

// abandon does for an unreachable machine what is possible from the other machines. The replica
// on it may still serve, so it leaves rotation like any other. An unreachable load balancer
// (often on the same machine) does not prevent that. A load balancer that refuses does, and so
// does an unknown state of the other replicas if one of them has to serve.
func (r *Replicas) abandon(ctx context.Context, s Spec, o DeleteOptions, unreachable error) error {
	err := r.drainForDelete(ctx, s, o)
	unasked := errors.Is(err, host.ErrUnreachable)
	if err != nil && (!unasked || r.keepLastReplica(s, o) != nil) {
		return err
	}
	if o.Abandon.Covers(s.Host.Address(), unreachable) {
		problem.Progress(ctx, "%s: unreachable, left as it is", s.Machine())
		return nil
	}
	next := "make the machine reachable and apply again, or, if it is gone for good, " +
		host.AbandonRemedy(s.Host.Address()) + "."
	if errors.Is(unreachable, host.ErrNoAnswer) {
		next = host.HangRemedy
	}
	return &problem.Problem{
		Summary:   "Control-plane replica not deleted",
		Host:      s.Machine(),
		Cause:     unreachable.Error(),
		Unchanged: "the machine; the replica is no longer registered with any balancer that can be reached.",
		Next:      next,
		Err:       errors.Join(unreachable, err),
	}
}

// cleanAttempts is how often the machine is observed again if it changed after it was
// observed.
const cleanAttempts = 3

// checkClean returns an error before the first change if the machine has parts of a replica
// whose owner is unknown. Otherwise it returns the machine.
func checkClean(ctx context.Context, s Spec) (machine.Observed, error) {
	f, err := machine.Observe(ctx, s.Host, s.Replica)
	if err != nil {
		return f, err
	}
	if _, _, err = f.Owner(s.Replica); err != nil {
		return f, &problem.Problem{
			Summary: "Control-plane replica not deleted", Host: s.Machine(), Cause: err.Error(), Unchanged: problem.Nothing,
			Err: err,
			Next: "if " + machine.RecordPath + " is missing, apply the replica, which writes it again; if it cannot be read, " +
				"move it away on the machine. Then destroy again.",
		}
	}
	return f, nil
}

// clean stops and removes the replica if the machine still has it. The caller holds the lease
// of the machine. With hasNode, the record stays until removeNode.
func clean(ctx context.Context, s Spec, o DeleteOptions, hasNode bool) (cleaned bool, err error) {
	for range cleanAttempts {
		if o.superseded() {
			return false, errSuperseded
		}
		f, err := machine.Observe(ctx, s.Host, s.Replica)
		if err != nil {
			return false, err
		}
		owned, other, err := f.Owner(s.Replica)
		if err != nil {
			return false, fmt.Errorf("clean replica %s: %w", s.Machine(), err)
		}
		if !owned {
			reportLeft(ctx, s, o, other)
			return false, nil
		}
		problem.Progress(ctx, "%s: stopping the components", s.Machine())
		changed, err := f.Remove(ctx, s.Host, s.Replica, hasNode)
		if err != nil {
			return false, fmt.Errorf("clean replica %s: %w", s.Machine(), err)
		}
		if !changed {
			return true, nil
		}
	}
	return false, fmt.Errorf("clean replica %s: another process is changing it", s.Machine())
}

// reportLeft reports that the machine was left unchanged.
func reportLeft(ctx context.Context, s Spec, o DeleteOptions, other string) {
	why := fmt.Sprintf("%s holds %s now, and was left as it is", s.Host.Address(), other)
	problem.Progress(ctx, "%s: %s", s.Machine(), why)
	if o.Left != nil {
		o.Left(why)
	}
}

package controlplane

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// machineLease is held on a machine while a replica is created, changed or deleted
// there.
const machineLease = "replica"

// takeMachineLease takes the lease of a replica's machine.
func takeMachineLease(ctx context.Context, s Spec) (*host.Leases, error) {
	what := "the replica on " + s.Host.Address()
	leases, err := host.TakeLeases(ctx, []host.LeaseTaker{s.Host}, machineLease, host.LeaseOptions{What: what, All: true})
	if err != nil {
		return nil, fmt.Errorf("lock the machine of replica %s: %w", s.Machine(), err)
	}
	return leases, nil
}

// Delete drains and deregisters the replica, then stops it and cleans the machine. The last
// serving replica stays while its control plane is protected from deletion, or is to continue.
// A machine that now has something else is left unchanged.
func (r *Replicas) Delete(ctx context.Context, s Spec, o DeleteOptions) error {
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
	if err := checkClean(ctx, s); err != nil {
		return err
	}
	if err := r.withdraw(ctx, s, o); err != nil {
		return err
	}
	return clean(ctx, s, o)
}

// abandon does for an unreachable machine what is possible from the other machines. The replica
// on it may still serve, so it leaves rotation like any other. An unreachable load balancer
// (often on the same machine) does not prevent that. A load balancer that refuses does, and so
// does an unknown state of the other replicas if one of them has to serve.
func (r *Replicas) abandon(ctx context.Context, s Spec, o DeleteOptions, unreachable error) error {
	err := r.withdraw(ctx, s, o)
	unasked := errors.Is(err, host.ErrUnreachable)
	if err != nil && (!unasked || r.keepLastReplica(s, o) != nil) {
		return err
	}
	if o.Abandon.Covers(s.Host.Address(), unreachable) {
		problem.Progress(ctx, "%s: unreachable, left as it is", s.Machine())
		return nil
	}
	unchanged := "the machine; the replica is no longer registered with any balancer that can be reached."
	return &problem.Problem{
		Summary:   "control-plane replica not deleted",
		Host:      s.Machine(),
		Cause:     unreachable.Error(),
		Unchanged: unchanged,
		Next:      "make the machine reachable and apply again, or, if it is gone for good, " + host.AbandonRemedy(s.Host.Address()) + ".",
		Err:       errors.Join(unreachable, err),
	}
}

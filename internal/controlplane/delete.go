package controlplane

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// machineLease is the lease of who makes, changes or removes a replica on a
// machine, which it is held on for as long as that lasts.
const machineLease = "replica"

// takeMachineLease takes the lease of the replica's machine.
func takeMachineLease(ctx context.Context, s Spec) (*host.Leases, error) {
	what := "the replica on " + s.Host.Address()
	leases, err := host.TakeLeases(ctx, []host.LeaseTaker{s.Host}, machineLease, host.LeaseOptions{What: what, All: true})
	if err != nil {
		return nil, fmt.Errorf("lock the machine of replica %s: %w", s.Machine(), err)
	}
	return leases, nil
}

// Delete drains and deregisters the replica, then stops it and cleans the machine.
// The last replica that serves stays while its control plane is protected from
// deletion, or is meant to go on. A machine that holds something else by now is
// left as it is.
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

// abandon does for a machine that cannot be reached what the others can do. That
// it cannot be reached does not say that it serves nobody: it leaves as any other
// does. A balancer that cannot be reached either (often it is on the same machine)
// is no obstacle; one that refuses is, and so is that nobody can say whether
// another replica serves where one has to.
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

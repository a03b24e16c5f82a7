package controlplane

import (
	"context"
	"fmt"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// The limits of a Hold. As long as it lasts, no other replica of the control plane can be changed,
// and one failure less is tolerated.
const (
	ShortestHold = time.Second
	LongestHold  = time.Hour
	// holdReport is the time between two reports of progress.
	holdReport = 30 * time.Second
)

// Hold takes the replica on a machine out of rotation for a time, and returns it. All others must
// serve. It is never left out without a process that keeps the others in: the replica returns when
// the time is over, when the caller ends ctx, and, if this process is killed, with the next apply
// that changes a replica or finds the drift. The leases of the machine and of the control plane are
// held from beginning to end.
func (r *Replicas) Hold(ctx context.Context, b StackedMember, d time.Duration) error {
	s, err := r.replicaToHold(ctx, b)
	if err != nil {
		return err
	}
	held, err := takeMachineLease(ctx, s)
	if err != nil {
		return err
	}
	defer held.Release()
	ctx = held.Context(ctx)
	lock, _, err := r.drain(ctx, s, drainOptions{stops: true, check: func(ctx context.Context, lock heldLock) error {
		if err := checkListed(ctx, s.Registrar, s.Name, s.Address); err != nil {
			return err
		}
		return requireServing(s)(ctx, lock)
	}})
	if err != nil {
		return err
	}
	succeeded := false
	defer func() { lock.finish(succeeded) }()
	ctx = lock.context(ctx)
	components, err := leave(ctx, s)
	if err == nil {
		waitOut(ctx, s, d)
	}
	if failed := returnHeld(context.WithoutCancel(ctx), s, components); failed != nil {
		return failed
	}
	succeeded = true
	if err == nil && ctx.Err() != nil {
		return fmt.Errorf("replica %s is back in rotation, earlier than requested: %w", s.Machine(), ctx.Err())
	}
	return err
}

// replicaToHold returns the replica on the machine, as its record describes it.
func (r *Replicas) replicaToHold(ctx context.Context, b StackedMember) (Spec, error) {
	recorded, err := r.Recorded(ctx, b.Host)
	if err != nil {
		return Spec{}, err
	}
	refusal := &problem.Problem{
		Summary: "Control-plane replica not drained", Host: b.Host.Address(), Unchanged: problem.Nothing,
		Next: "use the address of a machine with a replica of this cluster.",
	}
	switch {
	case recorded.ClusterID == "":
		refusal.Cause = "the machine has no replica of this provider"
		return Spec{}, refusal
	case recorded.ClusterID != b.Bundle.ClusterID:
		refusal.Cause = "the replica on the machine belongs to another cluster, " + problem.Quote(recorded.ClusterID)
		return Spec{}, refusal
	}
	s, _, err := b.replica(ctx)
	if err == nil && s == nil {
		refusal.Cause, refusal.Next = "the machine does not answer any more", "try again."
		err = refusal
	}
	if err != nil {
		return Spec{}, err
	}
	return *s, nil
}

// requireServing refuses the drain of a replica that does not serve: a drain is for a replica that
// can return.
func requireServing(s Spec) func(context.Context, heldLock) error {
	return func(ctx context.Context, _ heldLock) error {
		serving, err := checkServing(ctx, s)
		if err != nil || serving {
			return err
		}
		return &problem.Problem{
			Summary: "Control-plane replica not drained", Host: s.Machine(), Unchanged: problem.Nothing,
			Cause: "it does not serve, so it could not return", Next: "apply, which repairs it, then try again.",
		}
	}
}

// leave stops the replica if that is how it leaves rotation. It returns the stopped components.
func leave(ctx context.Context, s Spec) (stopped []string, err error) {
	if !s.Registrar.LeavesByStopping() {
		return nil, nil
	}
	return release.Components(), stopForReturn(ctx, s)
}

// waitOut returns when the time is over or ctx ends.
func waitOut(ctx context.Context, s Spec, d time.Duration) {
	end := time.Now().Add(d)
	over := time.NewTimer(d)
	defer over.Stop()
	ticks := time.NewTicker(holdReport)
	defer ticks.Stop()
	problem.Progress(ctx, "%s: out of rotation until %s", s.Machine(), end.UTC().Format(time.TimeOnly+" UTC"))
	for {
		select {
		case <-ticks.C:
			problem.Progress(ctx, "%s: out of rotation for another %s", s.Machine(),
				time.Until(end).Round(time.Second))
		case <-over.C:
			return
		case <-ctx.Done():
			problem.Progress(ctx, "%s: interrupted: returning to rotation", s.Machine())
			return
		}
	}
}

// returnHeld returns the replica to rotation when it is ready.
func returnHeld(ctx context.Context, s Spec, components []string) error {
	ctx, cancel := context.WithTimeout(ctx, returnTimeout)
	defer cancel()
	if err := startAndRegister(ctx, s, components); err != nil {
		return withRotationState(fmt.Errorf("return replica %s: %w", s.Machine(), err),
			"the other replicas; this one stays out of rotation until it is applied again.")
	}
	problem.Progress(ctx, "%s: back in rotation", s.Machine())
	return nil
}

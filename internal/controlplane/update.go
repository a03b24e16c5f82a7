package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Update changes the replica to s: drain, change, wait until ready, register. One
// replica changes at a time, and components are restarted only if they must be.
func (r *Replicas) Update(ctx context.Context, s Spec) (Status, error) {
	if err := s.Validate(); err != nil {
		return Status{}, err
	}
	held, err := takeMachineLease(ctx, s)
	if err != nil {
		return Status{}, err
	}
	defer held.Release()
	status, err := r.stages(held.Context(ctx), s)
	if err == nil {
		status, err = r.followKubelet(held.Context(ctx), s, status)
	}
	if err == nil {
		r.inProgress.forget(s)
	}
	return status, err
}

// stages changes the replica to s, through the encryption stage before it if that must
// come first.
func (r *Replicas) stages(ctx context.Context, s Spec) (Status, error) {
	f, err := machine.Inspect(ctx, s.Host, s.Replica)
	if err != nil {
		return Status{}, err
	}
	if err := checkChangeable(s, f); err != nil {
		return Status{}, err
	}
	if err := checkMove(ctx, s, f); err != nil {
		return Status{}, err
	}
	if err := checkKubelet(s, f); err != nil {
		return Status{}, err
	}
	if between, further := intermediateStage(s, f); further {
		if err := between.Validate(); err != nil {
			return Status{}, err
		}
		if status, err := r.stages(ctx, between); err != nil {
			return status, err
		}
		if f, err = machine.Inspect(ctx, s.Host, s.Replica); err != nil {
			return Status{}, err
		}
	}
	return r.update(ctx, s, f)
}

func (r *Replicas) update(ctx context.Context, s Spec, f machine.Observed) (Status, error) {
	now := time.Now()
	if len(drift(s.Replica, f, now)) == 0 && f.Record.IsComplete(s.Replica) {
		status, err := reregister(ctx, s, f)
		if err != nil {
			return status, err
		}
		return status, r.rewriteInRotation(ctx, s)
	}
	d, err := decide(s.Replica, f, now)
	if err != nil {
		return Status{}, err
	}
	if d.leaves = leftRuntime(s, f); d.leaves == nil {
		d.deferUnits(f)
		d.keepsFiles = d.touchesConfigFiles(f)
		d.rollback = rollbackTarget(ctx, s, f)
	}
	if d.rollback == nil {
		d.remove = append(d.remove, machine.RollbackRecordPath)
	}
	options := drainOptions{
		stops: d.restarts(release.APIServer),
		check: func(ctx context.Context, _ heldLock) error { return r.checkRotation(ctx, s, f) },
	}
	if changesVersion(s, f) {
		options.check = func(ctx context.Context, lock heldLock) error {
			if err := checkReadable(ctx, s, f); err != nil {
				return err
			}
			return r.checkUpgrade(ctx, s, lock)
		}
	} else if err := install(ctx, s); err != nil { // before the drain, so that an upload does not lengthen it
		return Status{}, err
	}
	if err := bindBeforeCertificateChange(ctx, asObserved(s, f), d); err != nil {
		return Status{}, err
	}
	d.agents = r.agentsToAwait(ctx, s, f, d)
	lock, drained, err := r.drain(ctx, s, options)
	if err != nil {
		return Status{}, err
	}
	status, err := applyOrRollBack(lock.context(ctx), s, d, drained)
	lock.release(err == nil)
	if err != nil && d.rollback == nil && changesVersion(s, f) {
		err = withoutRollback(err)
	}
	if err != nil {
		return status, err
	}
	return status, r.rewriteInRotation(ctx, s)
}

// reregister registers a replica without drift. The reason why it was out of rotation may have
// ended only now: an API server takes a while to reconnect to an etcd member.
func reregister(ctx context.Context, s Spec, f machine.Observed) (Status, error) {
	if err := awaitReady(ctx, s, changes{}); err != nil {
		return Status{}, withRotationState(err, problem.Nothing)
	}
	if f.Rollback != nil {
		if err := removeRollbackRecord(ctx, s); err != nil {
			return Status{}, err
		}
	}
	return register(ctx, s)
}

// applyOrRollBack applies d under the lock, and rolls back if the replica does not become
// ready. If the apply is cancelled, there is no rollback; the next apply continues.
func applyOrRollBack(ctx context.Context, s Spec, d changes, drained bool) (Status, error) {
	if d.leaves != nil {
		if err := leaveRuntime(ctx, s, d.leaves); err != nil {
			return Status{}, withRotationState(err, rotationAfter(drained))
		}
	}
	if d.rollback != nil && d.keepsFiles {
		if err := keepConfigFiles(ctx, s, *d.rollback); err != nil {
			return Status{}, withRotationState(err, rotationAfter(drained))
		}
	}
	if err := bringUp(ctx, s, d); err != nil {
		if d.rollback != nil && !errors.Is(ctx.Err(), context.Canceled) {
			return Status{}, rollBack(ctx, s, *d.rollback, err, drained)
		}
		return Status{}, withRotationState(err, rotationAfter(drained))
	}
	if err := settleFilesList(ctx, s, d); err != nil {
		return Status{}, err
	}
	if d.rollback != nil {
		if err := removeRollbackRecord(ctx, s); err != nil {
			return Status{}, err
		}
	}
	return register(ctx, s)
}

// withoutRollback adds to a failure why no rollback was possible.
func withoutRollback(err error) error {
	const why = "there was nothing to roll back to: the replica was not ready before the change either"
	var p *problem.Problem
	if errors.As(err, &p) {
		p.Cause += "; " + why
		return err
	}
	return fmt.Errorf("%w; %s", err, why)
}

// checkChangeable returns an error before the first change if the machine has another replica,
// or if a new version is combined with a stage of a rotation. A version can be rolled back. A
// stage that others may rely on cannot, and unit files from before it do not match the files
// after it.
func checkChangeable(s Spec, f machine.Observed) error {
	refusal := &problem.Problem{
		Summary: "Control-plane replica cannot be changed", Host: s.Machine(), Unchanged: problem.Nothing,
	}
	if failed := machine.OwnershipProblems(s.Replica, f); len(failed) > 0 {
		refusal.Cause = strings.Join(failed, "; ")
		refusal.Next = "check the replica's host address."
		return refusal
	}
	if len(f.Problems) > 0 {
		refusal.Cause = strings.Join(f.Problems, "; ")
		refusal.Next = "fix this on the machine and apply again."
		return refusal
	}
	if f.Record.ClusterID != "" && changesVersion(s, f) && !sameGenerations(f.Record.Generations, s.Bundle.Generations()) {
		has := f.EffectiveVersion(release.APIServer)
		refusal.Attribute = "version"
		refusal.Cause = fmt.Sprintf("its version and a stage of a rotation would change together (%s)",
			strings.Join(generationDrift(f.Record.Generations, s.Bundle.Generations()), ", "))
		refusal.Next = fmt.Sprintf("set version back to %s and apply, then raise it again: one after the other.", has)
		return refusal
	}
	return nil
}

// withRotationState adds to a failure whether the replica is in rotation.
func withRotationState(err error, rotation string) error {
	var p *problem.Problem
	if errors.As(err, &p) {
		p.Unchanged = rotation
		return err
	}
	return fmt.Errorf("%w; %s", err, rotation)
}

package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Update changes the replica to s: drain, change, wait until ready, register. One
// replica changes at a time, and components are restarted only if they must be.
func (r *Replicas) Update(ctx context.Context, s Spec) (Status, error) {
	if err := s.Validate(); err != nil {
		return Status{}, err
	}
	// Others need the machine meanwhile.
	if err := r.paused.wait(ctx, s); err != nil {
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
		err = withReplica(err)
	}
	if err == nil {
		r.inProgress.forget(s)
	}
	return status, err
}

// stages changes the replica to s, through the encryption stage before it if that must
// come first.
func (r *Replicas) stages(ctx context.Context, s Spec) (Status, error) {
	if err := r.paused.wait(ctx, s); err != nil {
		return Status{}, err
	}
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
	status, err := r.update(ctx, s, f)
	if errors.Is(err, errPausedMeanwhile) {
		problem.Progress(ctx, "%s: %v", s.Machine(), err)
		return r.stages(ctx, s)
	}
	return status, err
}

func (r *Replicas) update(ctx context.Context, s Spec, f machine.Observed) (Status, error) {
	now := time.Now()
	if len(drift(s.Replica, f, now)) == 0 && f.Record.IsComplete(s.Replica) {
		status, err := r.reregister(ctx, s, f)
		if err != nil {
			return status, err
		}
		return status, r.rewriteInRotation(ctx, s)
	}
	if err := checkClock(s, f); err != nil {
		return Status{}, err
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
	if err := checkTakeover(ctx, s, f, d); err != nil {
		return Status{}, err
	}
	if d.rollback == nil {
		d.remove = append(d.remove, machine.RollbackRecordPath)
	}
	options := drainOptions{
		stops: d.restarts(release.APIServer),
		check: func(ctx context.Context, lock heldLock) error { return r.checkChange(ctx, s, f, lock) },
	}
	if !changesVersion(s, f) {
		if err := install(ctx, s); err != nil { // before the drain, so that an upload does not lengthen it
			return Status{}, withNode(err, s.Replica, f)
		}
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
	lock.finish(err == nil)
	if err != nil && d.rollback == nil && changesVersion(s, f) {
		err = withoutRollback(err)
	}
	if err != nil {
		return status, err
	}
	return status, r.rewriteInRotation(ctx, s)
}

// checkChange returns why the replica may not change now, or nil. A change of the version does not come with a stage of
// a rotation, but the bundle may have other CAs or keys at the same stage.
func (r *Replicas) checkChange(ctx context.Context, s Spec, f machine.Observed, lock heldLock) error {
	if err := r.checkNotPaused(ctx, s, f); err != nil {
		return err
	}
	if err := r.checkRotation(ctx, s, f); err != nil || !changesVersion(s, f) {
		return err
	}
	return r.checkUpgrade(ctx, s, lock)
}

// reregister registers a replica without drift. The reason why it was out of rotation may have
// ended only now: an API server takes a while to reconnect to an etcd member. The registration may restart the agent
// of an endpoint on the machine, so it is a change of rotation, and has the lock. A replica that only returns is not
// refused after an earlier failure. If it fails, perhaps because another replica is out of rotation, that one can still
// be repaired.
func (r *Replicas) reregister(ctx context.Context, s Spec, f machine.Observed) (Status, error) {
	if err := awaitReady(ctx, s, changes{}); err != nil {
		return Status{}, withRotationState(err, problem.Nothing)
	}
	if f.Rollback != nil {
		if err := removeRollbackRecord(ctx, s); err != nil {
			return Status{}, err
		}
	}
	lock, err := r.changeLocks.acquire(ctx, s)
	if err != nil {
		return Status{}, err
	}
	defer lock.release()
	if err := r.checkNotPaused(lock.context(ctx), s, f); err != nil {
		return Status{}, err
	}
	status, err := register(lock.context(ctx), s)
	if err == nil {
		err = recordArrival(ctx, s, f.Record)
	}
	return status, err
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
	status, err := enterRotation(ctx, s, d.agents)
	if err == nil {
		err = recordArrival(ctx, s, d.record)
	}
	return status, err
}

// recordArrival removes from a replica's record the endpoints that it has left, once it is registered at the others.
// Until then, an Outage takes it out of rotation at all of them.
func recordArrival(ctx context.Context, s Spec, record machine.Record) error {
	if len(record.Leaves) == 0 {
		return nil
	}
	record.Leaves = nil
	if _, err := s.Host.Apply(ctx, host.Change{Files: []host.File{record.File()}}); err != nil {
		return fmt.Errorf("complete the record of replica %s: %w", s.Machine(), err)
	}
	return nil
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
// or if a new version is combined with a takeover or a stage of a rotation. A version can be rolled back. A
// stage that others may rely on cannot, and unit files from before it do not match the files
// after it. While API servers of kubeadm are not taken over, their versions are no part of the decision.
func checkChangeable(s Spec, f machine.Observed) error {
	refusal := &problem.Problem{
		Summary: "Control-plane replica cannot be changed", Host: s.Machine(), Unchanged: problem.Nothing,
	}
	if f.TakesOverFirst(s.Replica) {
		refusal.Attribute = "runtime"
		refusal.Cause = "kubeadm has created its components, which are static pods, and they are not taken over yet"
		refusal.Next = `set runtime = "static_pod" and apply, then change it.`
		return refusal
	}
	if failed := machine.OwnershipProblems(s.Replica, f); len(failed) > 0 {
		refusal.Cause = strings.Join(failed, "; ")
		refusal.Next = "check the replica's host address."
		if f.TakesOver(s.Replica) {
			refusal.Next = "let the configuration and the bundle say what the machine has, or change the machine, as the " +
				"table \"What is refused\" in the guide Adopt a kubeadm control plane says. A file that a manifest names " +
				"must stay until that manifest names another one. Then apply again."
		}
		return refusal
	}
	if len(f.Problems) > 0 {
		refusal.Cause = strings.Join(f.Problems, "; ")
		refusal.Next = "fix this on the machine and apply again."
		return refusal
	}
	if f.TakesOver(s.Replica) && changesVersion(s, f) {
		has := f.EffectiveVersion(release.APIServer)
		refusal.Attribute = "version"
		refusal.Cause = fmt.Sprintf("it runs %s, and has to be taken over with this version first", has)
		refusal.Next = fmt.Sprintf("set version to %s and apply, then raise it.", has)
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

// checkTakeover returns an error before the first change if a takeover would restart a component that could not go back
// to kubeadm's manifest. A takeover that restarts nothing needs no way back.
func checkTakeover(ctx context.Context, s Spec, f machine.Observed, d changes) error {
	if d.rollback != nil || len(d.restart) == 0 || !f.TakesOver(s.Replica) {
		return nil
	}
	why := strings.Join(asObserved(s, f).client().NotReady(ctx), "; ")
	return &problem.Problem{
		Summary: "Control-plane replica not taken over", Host: s.Machine(), Unchanged: problem.Nothing,
		Cause: fmt.Sprintf("%s would be restarted, and could not be rolled back to what kubeadm has defined: %s",
			strings.Join(d.restart, ", "), cmp.Or(why, "a manifest of it is missing or not understood")),
		Next: "let the configuration say what the machine has, or make the replica ready with kubeadm's manifests; then " +
			"apply again, and change the replica with a later apply.",
	}
}

// checkClock returns an error before the first change if the API server would refuse the certificate with which the
// provider ends that change. A replica that is drained and restarted by then would stay out of rotation.
func checkClock(s Spec, f machine.Observed) error {
	wrong := f.Facts.ClockProblem()
	if wrong == "" {
		return nil
	}
	return &problem.Problem{
		Summary: "Control-plane replica cannot be changed", Host: s.Machine(), Cause: wrong, Unchanged: problem.Nothing,
		Next: "set the clock of the machine, or of this computer, then apply again.",
	}
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

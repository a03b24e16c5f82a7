package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// errSuperseded means that a Create of the same identity has begun, so there is nothing left to
// delete.
var errSuperseded = errors.New("superseded by a create of the same object")

// drainForDelete removes the replica from the endpoint. It keeps the lock until the load balancers
// have removed it, so that the next replica to leave is checked against those that remain.
func (r *Replicas) drainForDelete(ctx context.Context, s Spec, o DeleteOptions) error {
	return r.waitForOthers(ctx, s, false, func() (err error) {
		lock, err := r.changeLocks.acquire(ctx, s)
		if err != nil {
			return err
		}
		defer func() {
			if err != nil {
				lock.release()
				return
			}
			lock.finish(true) // a failure of a deleted replica no longer matters
		}()
		ctx := lock.context(ctx)
		if o.superseded() {
			return errSuperseded
		}
		listed, err := s.Registrar.Replicas(ctx)
		if err != nil {
			return fmt.Errorf("check where replica %s is registered: %w", s.Machine(), err)
		}
		if at, _, err := splitAddress(listed[s.Name]); err == nil && at != s.Host.Address() {
			problem.Progress(ctx, "%s: %s is now registered under its name, and stays registered", s.Machine(), at)
			return nil
		}
		delete(listed, s.Name)
		return r.drainAndDeregister(ctx, s, o, len(listed) > 0)
	})
}

// drainAndDeregister drains and deregisters the replica, under its lock. others means that the
// load balancers list other replicas.
func (r *Replicas) drainAndDeregister(ctx context.Context, s Spec, o DeleteOptions, others bool) error {
	stays := r.keepLastReplica(s, o)
	problem.Progress(ctx, "%s: draining", s.Machine())
	err := s.Registrar.DrainForDelete(ctx, s.Name, stays == nil)
	switch {
	case lastServing(err) && stays != nil:
		return stays.refusal(s, err, others)
	case err != nil:
		return drainRefused(s, err)
	case o.superseded():
		if err := s.Registrar.Undrain(ctx, s.Name); err != nil {
			return fmt.Errorf("put replica %s back into rotation: %w", s.Machine(), err)
		}
		return errSuperseded
	}
	if err := s.Registrar.Deregister(ctx, s.Name); err != nil {
		return fmt.Errorf("deregister replica %s: %w", s.Machine(), err)
	}
	return stopToLeave(ctx, s)
}

// stopToLeave stops the replica if that is how it leaves rotation. The caller has the lock, so
// the next replica to leave is checked against those that still serve. A machine that cannot be
// reached, or that holds another replica by now, is left as it is.
func stopToLeave(ctx context.Context, s Spec) error {
	if !s.Registrar.LeavesByStopping() {
		return nil
	}
	f, err := machine.Observe(ctx, s.Host, s.Replica)
	owned := false
	if err == nil {
		owned, _, err = f.Owner(s.Replica)
	}
	if err == nil && owned {
		_, err = s.Host.Run(ctx, host.Command{Script: f.StopScript(s.Replica)})
	}
	if err != nil && !errors.Is(err, host.ErrUnreachable) {
		return fmt.Errorf("stop replica %s: %w", s.Machine(), err)
	}
	return nil
}

// keepReason is why the last serving replica must not leave.
type keepReason struct {
	why, next string
	temporary bool // once this process has finished its current operations
}

// keepLastReplica returns why the replica must not leave if no other one serves, or nil if it
// may.
func (r *Replicas) keepLastReplica(s Spec, o DeleteOptions) *keepReason {
	pending, failed := r.inProgress.others(s)
	var creating []string
	if o.Creates != nil {
		creating = o.Creates()
	}
	switch {
	case len(pending) > 0:
		return &keepReason{
			why: "this run is creating " + strings.Join(pending, ", "), next: "apply again once that one exists.",
			temporary: true,
		}
	case s.Bundle.DeletionProtected():
		return &keepReason{
			why:  "the control plane is protected from deletion",
			next: "to delete it, set deletion_protection = false on the kube_pki_bundle, apply, then destroy.",
		}
	case len(failed)+len(creating) > 0:
		return &keepReason{
			why: "the control plane is to continue, and this run failed to create " +
				strings.Join(slices.Concat(failed, creating), ", "),
			next: "fix what keeps that from being created, then apply again.",
		}
	}
	return nil
}

// refusal returns the refusal of the registrar, with the reason why the replica is kept. It may
// be retried if another replica could begin to serve.
func (st *keepReason) refusal(s Spec, err error, others bool) error {
	p := &problem.Problem{
		Summary: "Last serving control-plane replica not deleted", Host: s.Machine(), Unchanged: problem.Nothing, Err: err,
		Next:  st.next + " If Terraform replaces it because its create failed: " + problem.Untaint,
		Cause: "no other replica serves, and " + st.why,
	}
	var refusal *problem.Problem
	if errors.As(err, &refusal) {
		p.Detail = refusal.Detail
	}
	if others || st.temporary {
		return fmt.Errorf("%w: %w", errNotDrained, p)
	}
	return p
}

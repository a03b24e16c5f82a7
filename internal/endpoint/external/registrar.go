package external

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Registrar implements the interface of package controlplane for an external endpoint. It changes
// nothing: the balancer's own health checks, or hooks, put a replica into rotation and take it out.
type Registrar struct {
	*targets.Set
	entries *entries
}

// For returns the registrar of one registration.
func (e *Endpoints) For(registration endpoint.Registration) *Registrar {
	return &Registrar{e.observer.For(registration), e.entries}
}

// Register returns when the replica is ready, the balancer has had the time to find out, and the
// endpoint answers. address is IP:port.
func (r *Registrar) Register(ctx context.Context, name, address string) error {
	if err := r.requireHooks(name, "registered"); err != nil {
		return err
	}
	t, err := r.At(name, address)
	if err != nil {
		return r.notInRotationError(name, err)
	}
	ready := func(ctx context.Context) error { return r.Probe(ctx, t) }
	if err := targets.WaitUntil(ctx, targets.ReadyTimeout, ready); err != nil {
		return r.notInRotationError(name, fmt.Errorf("its API server is not ready: %w", err))
	}
	if _, err := r.runHook(ctx, "register", r.Hooks.Register, t); err != nil {
		return r.notInRotationError(name, err)
	}
	if err := r.waitForRotation(ctx, t, true); err != nil {
		return r.notInRotationError(name, err)
	}
	if err := r.WaitUntilAnswers(ctx); err != nil {
		return r.notInRotationError(name, err)
	}
	r.entries.set(r.entry(), name, time.Now().Add(-r.EntryTime()))
	problem.Progress(ctx, "replica %s is ready, and %s answers", name, r.BaseURL())
	return nil
}

// Drain checks that the replica may leave rotation for a restart: all others must be in rotation. Then
// it runs the hook drain. Without one, the API server itself keeps serving after it has begun to
// stop, until the balancer has noticed.
func (r *Registrar) Drain(ctx context.Context, name string) error {
	return r.leave(ctx, name, targets.ToReturn)
}

// DrainForDelete checks that the replica may leave for good: another one must be in rotation. With
// lastAllowed, the only replica may leave too.
func (r *Registrar) DrainForDelete(ctx context.Context, name string, lastAllowed bool) error {
	if lastAllowed {
		return r.leave(ctx, name, targets.AsLast)
	}
	return r.leave(ctx, name, targets.ForGood)
}

func (r *Registrar) leave(ctx context.Context, name string, how targets.Leaving) error {
	if err := r.requireHooks(name, "drained"); err != nil {
		return err
	}
	seen, err := r.mayLeave(ctx, name, how)
	if err != nil {
		return err
	}
	if err := r.registerOthers(ctx, name, seen); err != nil {
		return r.hookError(name, "drained", err)
	}
	r.entries.set(r.entry(), name, time.Time{})
	return r.drain(ctx, name, seen[name])
}

// mayLeave returns the targets if a replica may leave rotation. The others that are ready are in rotation then.
func (r *Registrar) mayLeave(ctx context.Context, name string, how targets.Leaving) (targets.Observed, error) {
	for {
		seen := r.inRotation(ctx, name)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := r.MayLeave(ctx, name, seen, how, r.outOfRotation); err != nil {
			return nil, err
		}
		if waited, err := r.awaitEntries(ctx, name, seen); err != nil || !waited {
			return seen, err
		}
	}
}

// registerOthers runs the hook register for all other replicas that are ready, before one that is ready leaves: without
// the hook status, nobody knows whether a drain that was cut off has left one of them out. It returns when the balancer
// had the time to notice.
func (r *Registrar) registerOthers(ctx context.Context, leaver string, seen targets.Observed) error {
	blind := len(r.Hooks.Drain) > 0 && len(r.Hooks.Status) == 0
	if !blind || seen.Serving()[leaver] == "" {
		return nil
	}
	var group errgroup.Group
	for name := range seen.Serving() {
		if name == leaver {
			continue
		}
		group.Go(func() error {
			if _, err := r.runHook(ctx, "register", r.Hooks.Register, seen[name]); err != nil {
				return fmt.Errorf("replica %s: %w", name, err)
			}
			return r.waitForRotation(ctx, seen[name], true)
		})
	}
	return group.Wait()
}

// drain runs the hook drain, and undoes it if it fails.
func (r *Registrar) drain(ctx context.Context, name string, t targets.Target) error {
	if len(r.Hooks.Drain) == 0 || !t.Member() {
		return nil
	}
	_, err := r.runHook(ctx, "drain", r.Hooks.Drain, t)
	if err == nil {
		err = r.waitForRotation(ctx, t, false)
	}
	if err == nil {
		return nil
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	if undone := r.Undrain(undo, name); undone != nil {
		err = fmt.Errorf("%w; returning it to rotation failed too: %w", err, undone)
	}
	return r.hookError(name, "drained", err)
}

// undoTimeout limits Undrain after a failed drain, whose context may have ended.
const undoTimeout = time.Minute

// Undrain runs the hook register after a drain. Without hooks, a replica that is ready is in
// rotation.
func (r *Registrar) Undrain(ctx context.Context, name string) error {
	if err := r.requireHooks(name, "returned to rotation"); err != nil {
		return err
	}
	if len(r.Hooks.Drain) == 0 {
		return nil
	}
	t := r.Named(ctx, name)
	if t.Other != "" {
		return nil // another replica has the machine by now, which nobody has drained
	}
	_, err := r.runHook(ctx, "register", r.Hooks.Register, t)
	return r.hookError(name, "returned to rotation", err)
}

// Deregister runs the hook deregister. Without it, a replica that is gone is not ready. A hook may take the address for
// the replica. So one that has the machine by now is registered again.
func (r *Registrar) Deregister(ctx context.Context, name string) error {
	if err := r.requireHooks(name, "deregistered"); err != nil {
		return err
	}
	t := r.Named(ctx, name)
	_, err := r.runHook(ctx, "deregister", r.Hooks.Deregister, t)
	if occupant := t.Occupant(); err == nil && t.Shared && r.Probe(ctx, occupant) == nil {
		_, err = r.runHook(ctx, "register", r.Hooks.Register, occupant)
	}
	return r.hookError(name, "deregistered", err)
}

// errHooksUnknown: a machine records that there are hooks, and this run has not been given them.
var errHooksUnknown = errors.New("hooks change the balancer there, and this run has not been given them: they come " +
	"from the configuration, and never from a machine")

// requireHooks returns an error if the endpoint has hooks that are not known. A balancer that has to be told would send
// requests to a replica that is stopped, or is not ready yet.
func (r *Registrar) requireHooks(name, what string) error {
	if !r.HasHooks || r.Hooks.Any() {
		return nil
	}
	return &problem.Problem{
		Summary: "Replica " + name + " not " + what + " at endpoint " + r.Address,
		Cause:   errHooksUnknown.Error(), Err: errHooksUnknown,
		Next: "set endpoint of kube_etcd_member (or of the action) to the registration of the " +
			"kube_control_plane_endpoint, or to its address and hooks, then apply again; if the endpoint has no hooks any " +
			"more, apply that change first, which registers the replicas without them",
	}
}

// hookError is nil if err is.
func (r *Registrar) hookError(name, what string, err error) error {
	if err == nil {
		return nil
	}
	return &problem.Problem{
		Summary: "Replica " + name + " not " + what + " at endpoint " + r.Address,
		Cause:   err.Error(), Next: "fix the hook (external.hooks) or the balancer, then apply again", Err: err,
	}
}

// Registered returns why the replica is not in rotation, or nil.
func (r *Registrar) Registered(ctx context.Context, name, address string) ([]string, error) {
	t, err := r.At(name, address)
	if errors.Is(err, targets.ErrNotATarget) {
		return []string{err.Error()}, nil
	} else if err != nil {
		return nil, r.notInRotationError(name, err)
	}
	if err := r.Readiness(ctx, t); err != nil {
		return []string{"not ready: " + problem.Line(err.Error())}, ctx.Err()
	}
	status, known, err := r.status(ctx, t)
	if err != nil {
		return nil, r.hookError(name, "looked up", err)
	}
	if known && !*status.InRotation {
		return []string{"out of rotation: " + problem.Line(status.Reason)}, nil
	}
	return nil, nil
}

// inRotation observes all targets. One that is ready, and that the balancer does not have in rotation by what the hook
// status says, is not ready for requests. leaver is the replica that is to leave, or "".
func (r *Registrar) inRotation(ctx context.Context, leaver string) targets.Observed {
	seen := r.ObserveInRotation(ctx, leaver, r.outOfRotation)
	r.entries.observed(r.entry(), seen)
	return seen
}

// outOfRotation returns why a target that is ready gets no requests by what the hook status says, or nil.
func (r *Registrar) outOfRotation(ctx context.Context, t targets.Target) error {
	return outAtBalancer(r.status(ctx, t))
}

// OutOfRotation returns the replicas that get no requests, name → host:port.
func (r *Registrar) OutOfRotation(ctx context.Context) (map[string]string, error) {
	return r.inRotation(ctx, "").OutOfRotation(), ctx.Err()
}

// Serving returns the replicas that get requests, name → host:port.
func (r *Registrar) Serving(ctx context.Context) (map[string]string, error) {
	return r.inRotation(ctx, "").Serving(), ctx.Err()
}

// LeavesByStopping returns true: a replica is in rotation while it is ready.
func (*Registrar) LeavesByStopping() bool { return true }

// AgentsReachDrained returns true: the balancer passes the port of agents on after a check of that port. Hooks are
// about the port of the API.
func (*Registrar) AgentsReachDrained() bool { return true }

func (r *Registrar) notInRotationError(name string, err error) error {
	return &problem.Problem{
		Summary: "Replica " + name + " not in rotation at endpoint " + r.Address,
		Cause:   err.Error(), Next: nextStep(err), Err: err,
	}
}

// nextStep says what to do about an endpoint that does not answer.
func nextStep(err error) string {
	switch {
	case errors.Is(err, targets.ErrUnresolved):
		return "create the DNS record of the endpoint (address), or name a machine that can resolve it " +
			"(external.probe_from), then apply again"
	case errors.Is(err, targets.ErrTerminated):
		return "let the balancer pass TCP connections through without ending TLS, then apply again"
	case errors.Is(err, targets.ErrNotATarget):
		return "add the replica to external.targets of the endpoint and to the balancer, then apply again"
	}
	return "check that the balancer listens at this address, sends connections to the targets that the endpoint's " +
		"attribute backend lists, and checks them by HTTPS with the path " + targets.HealthCheckPath + ", then apply " +
		"again; if this computer cannot reach the endpoint, name a machine that can (external.probe_from)"
}

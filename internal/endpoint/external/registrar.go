package external

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// observeTimeout limits one observation of all targets.
const observeTimeout = 30 * time.Second

var errNoReplica = errors.New("its machine has no replica")

// Registrar implements the interface of package controlplane for an external endpoint. It changes
// nothing: the balancer's own health checks put a replica into rotation and take it out.
type Registrar struct {
	registration endpoint.Registration
	machine      func(address string) *host.Host
	recorded     Recorded
}

// For returns the registrar of one registration.
func (e *Endpoints) For(registration endpoint.Registration) *Registrar {
	return &Registrar{registration: registration, machine: e.machine, recorded: e.recorded}
}

// Register returns when the replica is ready, the balancer has had the time to find out, and the
// endpoint answers. address is IP:port.
func (r *Registrar) Register(ctx context.Context, name, address string) error {
	t, err := r.target(name, address)
	if err != nil {
		return r.notInRotationError(name, err)
	}
	ready := func(ctx context.Context) error { return r.probeTarget(ctx, t) }
	if err := r.waitUntil(ctx, readyTimeout, ready); err != nil {
		return r.notInRotationError(name, fmt.Errorf("its API server is not ready: %w", err))
	}
	if _, err := r.runHook(ctx, "register", r.registration.Hooks.Register, t); err != nil {
		return r.notInRotationError(name, err)
	}
	if err := r.waitForRotation(ctx, t, true); err != nil {
		return r.notInRotationError(name, err)
	}
	if err := r.waitUntilAnswers(ctx); err != nil {
		return r.notInRotationError(name, err)
	}
	problem.Progress(ctx, "replica %s is ready, and %s answers", name, r.url())
	return nil
}

// readyTimeout limits the wait for a replica that has just started.
const readyTimeout = 15 * time.Second

// target returns the target of a replica.
func (r *Registrar) target(name, address string) (target, error) {
	at, text, err := net.SplitHostPort(address)
	if err != nil {
		return target{}, err
	}
	port, err := parsePort(text)
	if err != nil {
		return target{}, err
	}
	if r.registration.Hosts[name] != at {
		return target{}, fmt.Errorf("%w: %s", errNotATarget, at)
	}
	return target{name: name, address: at, port: port}, nil
}

var errNotATarget = errors.New("external.targets of the endpoint does not have the replica at this address")

// Drain checks that the replica may leave rotation for a restart: all others must be ready. Then
// it runs the hook drain. Without one, the API server itself keeps serving after it has begun to
// stop, until the balancer has noticed.
func (r *Registrar) Drain(ctx context.Context, name string) error {
	return r.leave(ctx, name, toReturn)
}

// DrainForDelete checks that the replica may leave for good: another one must be ready. With
// lastAllowed, the only replica may leave too.
func (r *Registrar) DrainForDelete(ctx context.Context, name string, lastAllowed bool) error {
	if lastAllowed {
		return r.leave(ctx, name, asLast)
	}
	return r.leave(ctx, name, forGood)
}

func (r *Registrar) leave(ctx context.Context, name string, how leaving) error {
	seen := r.observe(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	why, last := mayLeave(name, seen, how)
	if why == "" {
		return r.drain(ctx, name, seen[name])
	}
	return &endpoint.Refusal{Last: last, Problem: &problem.Problem{
		Summary:   "Replica " + name + " not taken out of rotation at endpoint " + r.registration.Address,
		Cause:     why,
		Unchanged: problem.Nothing,
		Next:      "bring the other back, or destroy it if it is gone (its state is below), then apply again",
		Detail:    table(seen),
	}}
}

// drain runs the hook drain, and undoes it if it fails.
func (r *Registrar) drain(ctx context.Context, name string, t target) error {
	if len(r.registration.Hooks.Drain) == 0 || !t.member() {
		return nil
	}
	_, err := r.runHook(ctx, "drain", r.registration.Hooks.Drain, t)
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
	if len(r.registration.Hooks.Drain) == 0 {
		return nil
	}
	_, err := r.runHook(ctx, "register", r.registration.Hooks.Register, r.named(ctx, name))
	return r.hookError(name, "returned to rotation", err)
}

// Deregister runs the hook deregister. Without it, a replica that is gone is not ready.
func (r *Registrar) Deregister(ctx context.Context, name string) error {
	_, err := r.runHook(ctx, "deregister", r.registration.Hooks.Deregister, r.named(ctx, name))
	return r.hookError(name, "deregistered", err)
}

// named returns the target of that name. If its machine cannot be observed, the port is that of
// the endpoint's targets.
func (r *Registrar) named(ctx context.Context, name string) target {
	t := target{name: name, address: r.registration.Hosts[name], port: r.registration.TargetPort}
	if observed, err := r.recorded(ctx, t.address); err == nil && observed.Name == name {
		t.port = observed.Port
	}
	return t
}

// hookError is nil if err is.
func (r *Registrar) hookError(name, what string, err error) error {
	if err == nil {
		return nil
	}
	return &problem.Problem{
		Summary: "Replica " + name + " not " + what + " at endpoint " + r.registration.Address,
		Cause:   err.Error(), Next: "fix the hook (external.hooks) or the balancer, then apply again", Err: err,
	}
}

// Registered returns why the replica is not in rotation, or nil.
func (r *Registrar) Registered(ctx context.Context, name, address string) ([]string, error) {
	t, err := r.target(name, address)
	if errors.Is(err, errNotATarget) {
		return []string{err.Error()}, nil
	} else if err != nil {
		return nil, r.notInRotationError(name, err)
	}
	if err := r.probeTarget(ctx, t); err != nil {
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

// OutOfRotation returns the replicas that are not ready, name → host:port.
func (r *Registrar) OutOfRotation(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	for name, t := range r.observe(ctx) {
		if t.member() && !t.ready() {
			out[name] = t.at()
		}
	}
	return out, ctx.Err()
}

// Replicas returns the targets that have a replica, and those whose machine cannot be observed,
// name → host:port.
func (r *Registrar) Replicas(ctx context.Context) (map[string]string, error) {
	out, reachable := map[string]string{}, 0
	seen := r.observe(ctx)
	var lost []error
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		t := seen[name]
		if t.member() {
			out[name] = t.at()
		}
		if t.unreachable != nil {
			lost = append(lost, fmt.Errorf("%s: %w", name, t.unreachable))
			continue
		}
		reachable++
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if reachable == 0 {
		err := errors.Join(lost...)
		return nil, &problem.Problem{
			Summary: "Replicas of endpoint " + r.registration.Address + " not read",
			Host:    strings.Join(slices.Sorted(maps.Keys(seen)), ", "), Cause: "no target answers: " + err.Error(),
			Unchanged: problem.Nothing, Next: "make one of these hosts reachable and apply again", Err: err,
		}
	}
	return out, nil
}

// Serving returns the replicas that are ready, name → host:port.
func (r *Registrar) Serving(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	for name, t := range r.observe(ctx) {
		if t.member() && t.ready() {
			out[name] = t.at()
		}
	}
	return out, ctx.Err()
}

// LeavesByStopping returns true: a replica is in rotation while it is ready.
func (*Registrar) LeavesByStopping() bool { return true }

// Balancers returns the machines of the targets, sorted by name: the lease for changes of
// rotation is taken on them.
func (r *Registrar) Balancers() []host.LeaseTaker {
	var machines []host.LeaseTaker
	for _, name := range slices.Sorted(maps.Keys(r.registration.Hosts)) {
		machines = append(machines, r.machine(r.registration.Hosts[name]))
	}
	return machines
}

func (r *Registrar) notInRotationError(name string, err error) error {
	return &problem.Problem{
		Summary: "Replica " + name + " not in rotation at endpoint " + r.registration.Address,
		Cause:   err.Error(), Next: nextStep(err), Err: err,
	}
}

func inUseError(s Spec, remaining []string) error {
	return &problem.Problem{
		Summary:   "Endpoint " + s.Address + " not deleted",
		Cause:     "these machines still have a replica of it: " + strings.Join(remaining, ", "),
		Unchanged: problem.Nothing,
		Next:      "delete these kube_control_plane_replica resources first",
	}
}

// Package combined registers replicas at several endpoints of one control plane: a second address for
// other clients, or two endpoints while one takes over from the other.
package combined

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// undoTimeout limits the return to rotation after a refused drain or a failed registration, whose context may have
// ended.
const undoTimeout = time.Minute

// RegistrarOfOne is the registrar of one endpoint. Its methods are those of controlplane.Registrar.
type RegistrarOfOne interface {
	Register(ctx context.Context, name, address string) error
	Drain(ctx context.Context, name string) error
	DrainForDelete(ctx context.Context, name string, lastAllowed bool) error
	Undrain(ctx context.Context, name string) error
	Deregister(ctx context.Context, name string) error
	Registered(ctx context.Context, name, address string) ([]string, error)
	OutOfRotation(ctx context.Context) (map[string]string, error)
	Replicas(ctx context.Context) (map[string]string, error)
	ListedAt(ctx context.Context, name string) ([]string, error)
	Serving(ctx context.Context) (map[string]string, error)
	Balancers() []host.LeaseTaker
	LeavesByStopping() bool
	AgentsReachDrained() bool
}

// Endpoint is one endpoint of a control plane.
type Endpoint struct {
	ID        string // for messages
	Registrar RegistrarOfOne
	// Attempted: a registration of Replica has failed there, or was cut off, and was then given up. Replica leaves as far
	// as that is possible: the endpoint may never have worked, and must not prevent changes at the others.
	Attempted bool
	// Expected: Replica is to be registered there, and returns for now to those that it leaves then. If it is there
	// already, it is drained and returned to rotation there too. Otherwise it has nothing to do with that endpoint yet.
	Expected bool

	left bool // in Left; set by all
}

// Registrar registers replicas at all Endpoints. A replica is in rotation if it is in rotation at each of
// them, and leaves only if each of them allows it.
type Registrar struct {
	Endpoints []Endpoint
	// Replica comes to Endpoints with its next registration, and leaves those in Left: it is drained there, like
	// everywhere, and deregistered when it is in rotation at Endpoints. Others are not deregistered
	// from them. It is "" if the endpoints of no replica change.
	Replica string
	Left    []Endpoint
}

// Register puts a replica into rotation at every endpoint, also after one of them fails: the others may have nobody
// else who serves. If none has failed, it removes Replica from those that it leaves. Otherwise Replica returns to
// rotation there. Another replica, which returns to rotation, is registered only where it is known: its certificate may
// not have the name of a new endpoint yet.
func (r *Registrar) Register(ctx context.Context, name, address string) error {
	if r.moves() && name != r.Replica {
		return r.registerAgain(ctx, name, address)
	}
	if err := registerAt(ctx, r.Endpoints, name, address, nil); err != nil {
		return r.returnToLeft(ctx, name, err)
	}
	for _, e := range r.all()[len(r.Endpoints):] {
		if err := e.leave(ctx, name); err != nil {
			return fmt.Errorf("leave the endpoint %s: %w", e.ID, err)
		}
	}
	return nil
}

// leave deregisters Replica from an endpoint of Left, or returns it to rotation at one where it stays.
func (e Endpoint) leave(ctx context.Context, name string) error {
	if e.Expected {
		if there, err := e.has(ctx, name); err != nil || !there {
			return err
		}
		return e.reachable(ctx, e.Registrar.Undrain(ctx, name))
	}
	problem.Progress(ctx, "replica %s leaves the endpoint %s", name, e.ID)
	return e.reachable(ctx, e.Registrar.Deregister(ctx, name))
}

// returnToLeft returns Replica to rotation at the endpoints that it leaves after its registration has failed: they may
// have nobody else, a drain included them, and no later apply returns it there before a registration succeeds. It adds
// to the failure where the replica serves.
func (r *Registrar) returnToLeft(ctx context.Context, name string, failure error) error {
	left := r.counted()[len(r.Endpoints):]
	if len(left) == 0 {
		return failure
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	var serves, failed []string
	for _, e := range left {
		if err := e.Registrar.Undrain(ctx, name); err != nil {
			failed = append(failed, e.ID+" ("+problem.Line(err.Error())+")")
		} else {
			serves = append(serves, e.ID)
		}
	}
	p := problem.Problem{
		Summary: "Replica " + name + " not in rotation at all endpoints", Cause: failure.Error(),
		Next: "fix the cause and apply again",
	}
	if known := (*problem.Problem)(nil); errors.As(failure, &known) {
		p = *known
	}
	p.Err, p.Unchanged = failure, ""
	if len(failed) > 0 {
		p.Cause += "; returning it to rotation failed at the endpoint " + strings.Join(failed, ", ")
	}
	if len(serves) > 0 {
		p.Unchanged = "while it is ready, the replica is in rotation at the endpoint " + strings.Join(serves, ", ") + "."
	}
	return &p
}

// moves reports whether the endpoints of a replica change. Others have theirs until their own turn.
func (r *Registrar) moves() bool { return r.Replica != "" }

// registerAgain registers a replica at the endpoints that list it.
func (r *Registrar) registerAgain(ctx context.Context, name, address string) error {
	endpoints, unread := r.listing(ctx, name)
	return registerAt(ctx, endpoints, name, address, unread)
}

// registerAt registers a replica at all endpoints, until ctx ends. It returns what has failed, with the errors of
// before.
func registerAt(ctx context.Context, endpoints []Endpoint, name, address string, before []error) error {
	failed := before
	for _, e := range endpoints {
		if len(failed) > 0 && ctx.Err() != nil {
			break
		}
		if err := e.Registrar.Register(ctx, name, address); err != nil {
			failed = append(failed, fmt.Errorf("endpoint %s: %w", e.ID, err))
		}
	}
	return joined("Replica "+name+" not in rotation at all endpoints", failed)
}

// joined returns nil, the only error, or one that lists all of them.
func joined(summary string, all []error) error {
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	err := errors.Join(all...)
	return &problem.Problem{
		Summary: summary, Cause: fmt.Sprintf("%d endpoints fail, see below", len(all)),
		Next: "fix the causes and apply again", Detail: err.Error(), Err: err,
	}
}

// listing returns the endpoints that list a replica, and the errors of those that cannot be asked.
func (r *Registrar) listing(ctx context.Context, name string) (endpoints []Endpoint, unread []error) {
	for _, e := range r.counted() {
		listed, err := e.Registrar.Replicas(ctx)
		if err = e.reachable(ctx, err); err != nil {
			unread = append(unread, fmt.Errorf("endpoint %s: %w", e.ID, err))
		}
		if listed[name] != "" {
			endpoints = append(endpoints, e)
		}
	}
	return endpoints, unread
}

// has reports whether a replica is to be drained, and returned to rotation, at an endpoint.
func (e Endpoint) has(ctx context.Context, name string) (bool, error) {
	if !e.Expected {
		return true, nil
	}
	listed, err := e.Registrar.Replicas(ctx)
	return listed[name] != "", e.reachable(ctx, err)
}

// reachable drops the error of an endpoint that is left if none of its machines can be reached, or nothing answers. It
// sends requests to a replica that still serves, at most, and its drift shows the entry. Of one that was only
// attempted, it drops every error.
func (e Endpoint) reachable(ctx context.Context, err error) error {
	if e.left && e.Attempted && err != nil && ctx.Err() == nil {
		problem.Progress(ctx, "the endpoint %s, at which a registration has failed before, keeps what it has: %v", e.ID, err)
		return nil
	}
	silent := errors.Is(err, endpoint.ErrSilent) && ctx.Err() == nil
	if e.left && (errors.Is(err, host.ErrUnreachable) || silent) {
		problem.Progress(ctx, "the endpoint %s cannot be reached, and keeps what it has: %v", e.ID, err)
		return nil
	}
	return err
}

// all returns the endpoints, those that Replica leaves last.
func (r *Registrar) all() []Endpoint {
	all := slices.Concat(r.Endpoints, r.Left)
	for i := range r.Left {
		all[len(r.Endpoints)+i].left = true
	}
	return all
}

// counted returns the endpoints at which replicas count: all but those that were only attempted. Nobody serves there,
// and only a record on the machine of Replica names them.
func (r *Registrar) counted() []Endpoint {
	return slices.DeleteFunc(r.all(), func(e Endpoint) bool { return e.left && e.Attempted })
}

// Drain takes a replica out of rotation everywhere. If one endpoint refuses, it stays in rotation at
// the others.
func (r *Registrar) Drain(ctx context.Context, name string) error {
	return r.drain(ctx, name, func(one RegistrarOfOne) error { return one.Drain(ctx, name) })
}

// DrainForDelete is Drain for a replica that is deleted.
func (r *Registrar) DrainForDelete(ctx context.Context, name string, lastAllowed bool) error {
	return r.drain(ctx, name, func(one RegistrarOfOne) error { return one.DrainForDelete(ctx, name, lastAllowed) })
}

func (r *Registrar) drain(ctx context.Context, name string, drain func(RegistrarOfOne) error) error {
	endpoints := r.all()
	for i, e := range endpoints {
		there, err := e.has(ctx, name)
		if err == nil && there {
			err = e.reachable(ctx, drain(e.Registrar))
		}
		if err == nil {
			continue
		}
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		remain, undone := undrain(undo, endpoints[:i], name)
		if undone == nil {
			return err
		}
		return &problem.Problem{
			Summary:   "Replica " + name + " not drained at the endpoint " + e.ID,
			Cause:     problem.Line(err.Error()) + "; returning it to rotation failed: " + problem.Line(undone.Error()),
			Unchanged: "the replica is out of rotation at the endpoint " + remain + ", and runs unchanged.",
			Next:      "fix the cause and apply again, which returns it to rotation",
		}
	}
	return nil
}

// undrain returns a drained replica to rotation, also after an error, and returns the first one and its endpoint.
// An endpoint that is left and was skipped by the drain is skipped here too.
func undrain(ctx context.Context, drained []Endpoint, name string) (endpoint string, first error) {
	for _, e := range drained {
		if err := e.reachable(ctx, e.Registrar.Undrain(ctx, name)); err != nil && first == nil {
			endpoint, first = e.ID, err
		}
	}
	return endpoint, first
}

// Undrain returns a replica to rotation where it is still registered.
func (r *Registrar) Undrain(ctx context.Context, name string) error {
	return r.each(ctx, func(one RegistrarOfOne) error { return one.Undrain(ctx, name) })
}

// Deregister removes a replica from every endpoint.
func (r *Registrar) Deregister(ctx context.Context, name string) error {
	return r.each(ctx, func(one RegistrarOfOne) error { return one.Deregister(ctx, name) })
}

// each calls f for all endpoints, also after an error, and returns the first one.
func (r *Registrar) each(ctx context.Context, f func(RegistrarOfOne) error) error {
	var first error
	for _, e := range r.all() {
		err := e.reachable(ctx, f(e.Registrar))
		if first == nil {
			first = err
		}
	}
	return first
}

// Registered returns why a replica is not in rotation, by endpoint, or nil. An error means that some do not say, and
// the differences are those of the others. While the endpoints of Replica change, another one is expected where it is
// known.
func (r *Registrar) Registered(ctx context.Context, name, address string) ([]string, error) {
	endpoints := r.Endpoints
	var unread []error
	if r.moves() && name != r.Replica {
		var known []Endpoint
		known, unread = r.listing(ctx, name)
		if len(known)+len(unread) > 0 {
			endpoints = known
		}
	}
	var differences []string
	for _, e := range endpoints {
		more, err := e.Registrar.Registered(ctx, name, address)
		if err != nil {
			unread = append(unread, fmt.Errorf("endpoint %s: %w", e.ID, err))
		}
		for _, difference := range more {
			differences = append(differences, "endpoint "+e.ID+": "+difference)
		}
	}
	return differences, joined("Rotation of replica "+name+" not read at all endpoints", unread)
}

// OutOfRotation returns the replicas that get no new requests at one of the endpoints, name →
// host:port.
func (r *Registrar) OutOfRotation(ctx context.Context) (map[string]string, error) {
	return r.union(ctx, func(one RegistrarOfOne) (map[string]string, error) { return one.OutOfRotation(ctx) })
}

// Replicas returns every replica that one of the endpoints lists, name → host:port.
func (r *Registrar) Replicas(ctx context.Context) (map[string]string, error) {
	return r.union(ctx, func(one RegistrarOfOne) (map[string]string, error) { return one.Replicas(ctx) })
}

// ListedAt returns the addresses of the machines at which one of the endpoints lists a replica, also one that was only
// attempted: Replica is deregistered there, and its name is the word of a machine.
func (r *Registrar) ListedAt(ctx context.Context, name string) ([]string, error) {
	var all []string
	for _, e := range r.all() {
		at, err := e.Registrar.ListedAt(ctx, name)
		if err = e.reachable(ctx, err); err != nil {
			return nil, err
		}
		all = append(all, at...)
	}
	return all, nil
}

// union asks the endpoints that are left too: others may be in rotation only there. What the first of Endpoints says
// of a replica is what counts: it is where a replica comes first.
func (r *Registrar) union(
	ctx context.Context, ask func(RegistrarOfOne) (map[string]string, error),
) (map[string]string, error) {
	out := map[string]string{}
	for _, e := range r.counted() {
		more, err := ask(e.Registrar)
		if err = e.reachable(ctx, err); err != nil {
			return nil, err
		}
		for name, at := range more {
			out[name] = cmp.Or(out[name], at)
		}
	}
	return out, nil
}

// Serving returns the replicas that get new requests at every endpoint, name → host:port.
func (r *Registrar) Serving(ctx context.Context) (map[string]string, error) {
	var out map[string]string
	for _, e := range r.Endpoints {
		serving, err := e.Registrar.Serving(ctx)
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = serving
		}
		maps.DeleteFunc(out, func(name, _ string) bool { return serving[name] == "" })
	}
	return out, nil
}

// Balancers returns the machines that hold the lease for changes of rotation at any endpoint: a
// process that knows only one of them takes it there.
func (r *Registrar) Balancers() []host.LeaseTaker {
	var (
		machines []host.LeaseTaker
		seen     = map[string]bool{}
	)
	for _, e := range r.all() {
		for _, machine := range e.Registrar.Balancers() {
			if !seen[machine.Address()] {
				seen[machine.Address()] = true
				machines = append(machines, machine)
			}
		}
	}
	return machines
}

// LeavesByStopping reports whether a replica stays in rotation at one of the endpoints until its API
// server stops.
func (r *Registrar) LeavesByStopping() bool {
	for _, e := range r.all() {
		if e.Registrar.LeavesByStopping() {
			return true
		}
	}
	return false
}

// AgentsReachDrained reports whether agents reach a replica that is out of rotation through each of the endpoints. The
// endpoint of the agents is not known, and the wait for agents that cannot come would fail each change.
func (r *Registrar) AgentsReachDrained() bool {
	for _, e := range r.counted() {
		if !e.Registrar.AgentsReachDrained() {
			return false
		}
	}
	return true
}

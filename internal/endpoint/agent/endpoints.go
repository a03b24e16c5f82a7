package agent

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Spec is the wanted state of one endpoint.
type Spec interface {
	// Registration returns what the replicas need.
	Registration() endpoint.Registration
}

// Endpoints creates registrars and does the operations of endpoints of one kind, whose specs are S.
type Endpoints[S Spec, R any] struct {
	observer *targets.Observer
	kind     Kind[R]
	recorded Kind[R]        // of registrations that machines have recorded
	turns    *targets.Turns // whose agent is restarted
}

// New returns Endpoints. recorded is the kind without what a registration that a machine has recorded may not
// use, such as passwords.
func New[S Spec, R any](observer *targets.Observer, kind, recorded Kind[R]) *Endpoints[S, R] {
	return &Endpoints[S, R]{observer, kind, recorded, &targets.Turns{}}
}

// For returns the registrar of one registration.
func (e *Endpoints[S, R]) For(registration endpoint.Registration) *Registrar[R] {
	return &Registrar[R]{Set: e.observer.For(e.kind.Complete(registration)), Kind: e.kind, turns: e.turns}
}

// ForRecorded returns the registrar of a registration that a machine has recorded. It only takes replicas out of
// rotation and returns them, and writes nothing else: the record of a machine that was taken over must not choose
// what is written to others.
func (e *Endpoints[S, R]) ForRecorded(registration endpoint.Registration) *Registrar[R] {
	r := e.For(registration)
	r.Kind, r.recorded = e.recorded, true
	return r
}

// Create checks the arguments, and that no target belongs to another endpoint of this kind. It changes nothing:
// replicas install the agent when they register.
func (e *Endpoints[S, R]) Create(ctx context.Context, s S) (endpoint.Status, error) {
	status, err := e.converge(ctx, s, "created")
	return status, endpoint.Adopted(err) // what there is belongs to replicas, which are in rotation
}

// Update is Create with other settings. The replicas take them when they register again.
func (e *Endpoints[S, R]) Update(ctx context.Context, _, s S) (endpoint.Status, error) {
	return e.converge(ctx, s, "changed")
}

func (e *Endpoints[S, R]) converge(ctx context.Context, s S, what string) (endpoint.Status, error) {
	r := e.For(s.Registration())
	if err := r.check(); err != nil {
		return endpoint.Status{}, &problem.Problem{
			Summary: "Endpoint " + r.Address + " not " + what, Cause: err.Error(), Unchanged: problem.Nothing,
			Next: "correct the arguments of the endpoint (" + r.text().Attribute + ") and apply again", Err: err,
		}
	}
	seen := r.ObserveMachines(ctx)
	others := r.machinesOfOthers(seen)
	if err := ctx.Err(); err != nil {
		return endpoint.Status{}, err
	}
	if len(others) > 0 {
		return endpoint.Status{}, &problem.Problem{
			Summary: "Endpoint " + r.Address + " not " + what, Attribute: r.text().Attribute + ".targets",
			Cause:     "targets belong to another endpoint, see below: " + r.text().Taken,
			Unchanged: problem.Nothing,
			Next: "use other targets; " + endpoint.OtherHint + ", or, if that cluster is gone for good, run on the machine: " +
				"systemctl disable --now " + strings.Join(r.Kind.Units, " ") + "; rm -r " + r.Kind.ConfigDir,
			Detail: strings.Join(others, "\n"),
		}
	}
	if name, err := r.conflict(seen); err != nil {
		return endpoint.Status{}, &problem.Problem{
			Summary: "Endpoint " + r.Address + " not " + what, Host: r.Hosts[name], Cause: err.Error(),
			Unchanged: problem.Nothing, Next: r.nextStep(err), Err: err,
		}
	}
	if r.Kind.Taken != nil {
		if err := r.Kind.Taken(r.Registration, seen); err != nil {
			return endpoint.Status{}, &problem.Problem{
				Summary: "Endpoint " + r.Address + " not " + what, Cause: err.Error(),
				Unchanged: problem.Nothing, Next: r.nextStep(err), Err: err,
			}
		}
	}
	return endpoint.Status{ConfigDigest: s.Registration().Digest()}, nil
}

// conflict returns the first target that cannot be one of the endpoint's, and why.
func (r *Registrar[R]) conflict(seen map[string]Machine[R]) (name string, err error) {
	if r.Kind.Conflict == nil {
		return "", nil
	}
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		if m := seen[name]; m.Err == nil {
			if err := r.Kind.Conflict(r.Registration, m); err != nil {
				return name, err
			}
		}
	}
	return "", nil
}

// check returns why the registration cannot be used, or nil.
func (r *Registrar[R]) check() error {
	err := r.Kind.Validate(r.Registration)
	if err == nil && r.Kind.Secrets != nil && !r.recorded {
		err = r.Kind.Secrets(r.Registration)
	}
	return err
}

// machinesOfOthers lists the targets that belong to another endpoint.
func (r *Registrar[R]) machinesOfOthers(seen map[string]Machine[R]) []string {
	var others []string
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		if m := seen[name]; m.Err == nil && m.Owner.Other(r.Registration) {
			others = append(others, "  "+name+" ("+r.Hosts[name]+"): "+m.Owner.String())
		}
	}
	return others
}

// Read reports what the registration contains. Whether a replica is in rotation is a matter of the replica.
func (e *Endpoints[S, R]) Read(ctx context.Context, s S) (endpoint.Status, error) {
	return endpoint.Status{ConfigDigest: s.Registration().Digest()}, ctx.Err()
}

// Delete refuses while replicas of the endpoint exist. wait is how long it waits for the next one to leave. Then
// it removes what a replica has left behind whose machine could not be reached when it was deleted, see leftBehind.
func (e *Endpoints[S, R]) Delete(
	ctx context.Context, s S, wait time.Duration, superseded endpoint.Superseded,
) error {
	r := e.For(s.Registration())
	remaining, err := r.WaitUntilEmpty(ctx, wait, superseded)
	if err != nil {
		return err
	}
	if len(remaining) > 0 {
		return r.InUseError(remaining)
	}
	left, unread := r.leftBehind(r.ObserveMachines(ctx), r.Observe(ctx))
	for _, name := range left {
		if err := superseded.Err(); err != nil {
			return err
		}
		if err := r.clean(ctx, name, ""); err != nil {
			return err
		}
	}
	return errors.Join(ctx.Err(), unread)
}

// leftBehind returns the targets that have something of the endpoint, and no replica of it. One whose record of a
// replica cannot be read may have one that serves: that is an error.
func (r *Registrar[R]) leftBehind(seen map[string]Machine[R], replicas targets.Observed) (left []string, err error) {
	var unread []string
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		m, t := seen[name], replicas[name]
		switch {
		case m.Err != nil, !m.Owner.Exists(), m.Owner.Other(r.Registration):
		case t.Unreachable != nil:
			unread = append(unread, name+" ("+t.Address+"): "+problem.Line(t.Unreachable.Error()))
		default:
			left = append(left, name)
		}
	}
	if len(unread) > 0 {
		err = &problem.Problem{
			Summary:   "Endpoint " + r.Address + " not deleted",
			Cause:     "these machines have an agent of it, and do not say of which replica: " + strings.Join(unread, "; "),
			Unchanged: "their agents serve as before.",
			Next:      "fix what keeps the record of the replica from being read, then apply again",
		}
	}
	return left, err
}

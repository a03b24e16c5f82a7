package agent

import (
	"context"
	"errors"
	"net/netip"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Registrar implements the interface of package controlplane for an endpoint of one kind.
type Registrar[R any] struct {
	*targets.Set
	Kind     Kind[R]
	turns    *targets.Turns
	recorded bool // a machine has recorded the registration
}

func (r *Registrar[R]) text() Text { return r.Kind.Text(r.Registration) }

// Deregister removes everything from the machine, unless that has another replica by now. A machine that cannot be
// reached is skipped: if it is up, Delete of the endpoint removes the rest.
func (r *Registrar[R]) Deregister(ctx context.Context, name string) error {
	if r.Hosts[name] == "" {
		return nil
	}
	return r.operationError("deregistered", name, r.clean(ctx, name, name))
}

// clean removes everything from the machine of a target, if that has the replica. "" is whatever replica it has.
func (r *Registrar[R]) clean(ctx context.Context, target, replica string) error {
	_, err := endpoint.RunOwned(ctx, r.Machine(r.Hosts[target]), r.Kind.clean(r.Registration, replica))
	switch {
	case errors.Is(err, endpoint.ErrOther):
		return nil
	case errors.Is(err, host.ErrUnreachable) && ctx.Err() == nil:
		problem.Progress(ctx, "skipped: machine %s: %v", target, err)
		return nil
	}
	return err
}

// Registered returns the differences from the state after Register, or nil.
func (r *Registrar[R]) Registered(ctx context.Context, name, address string) ([]string, error) {
	t, err := r.At(name, address)
	if errors.Is(err, targets.ErrNotATarget) {
		return []string{err.Error()}, nil
	} else if err == nil {
		err = r.Kind.Validate(r.Registration)
	}
	if err != nil {
		return nil, r.operationError("observed", name, err)
	}
	own, err := netip.ParseAddr(t.Address)
	if err != nil {
		return nil, r.operationError("observed", name, err)
	}
	m := r.ObserveMachine(ctx, t.Address)
	if m.Err != nil {
		return nil, r.operationError("observed", name, m.Err)
	}
	differences := r.Kind.Drift(r.Registration, name, own, m)
	if err := r.Readiness(ctx, t); err != nil {
		differences = append(differences, "not ready: "+problem.Line(err.Error()))
	}
	return differences, ctx.Err()
}

// LeavesByStopping returns false: the agent stops serving the address before a replica stops.
func (*Registrar[R]) LeavesByStopping() bool { return false }

// AgentsReachDrained returns false: the address leads only to machines that serve it.
func (*Registrar[R]) AgentsReachDrained() bool { return false }

// operationError is nil if err is.
func (r *Registrar[R]) operationError(what, name string, err error) error {
	if err == nil {
		return nil
	}
	return &problem.Problem{
		Summary: "Replica " + name + " not " + what + " at endpoint " + r.Address,
		Host:    r.Hosts[name], Cause: err.Error(), Next: r.nextStep(err), Err: err,
	}
}

// nextStep says what to do about a machine whose agent does not serve the address.
func (r *Registrar[R]) nextStep(err error) string {
	switch next := r.Kind.Next(err); {
	case errors.Is(err, targets.ErrNotATarget):
		return "add the replica to " + r.text().Attribute + ".targets of the endpoint, then apply again"
	case errors.Is(err, errPort):
		return "give the replica the endpoint's port (port), then apply again"
	case next != "":
		return next
	case errors.Is(err, host.ErrNoAnswer):
		return host.HangRemedy
	}
	return "fix the cause and apply again; completed steps are skipped"
}

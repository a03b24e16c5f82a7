package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

var errPort = errors.New("clients reach the API server at the endpoint's address, so both need the same port")

// Register returns when the replica is ready, and its agent lets clients reach it. address is IP:port.
func (r *Registrar[R]) Register(ctx context.Context, name, address string) error {
	t, err := r.At(name, address)
	if err == nil {
		err = r.check()
	}
	if err == nil && t.Port != r.Port {
		err = fmt.Errorf("%w: it has port %d, and the endpoint %d", errPort, t.Port, r.Port)
	}
	if err != nil {
		return r.operationError("in rotation", name, err)
	}
	ready := func(ctx context.Context) error { return r.Probe(ctx, t) }
	if err := targets.WaitUntil(ctx, targets.ReadyTimeout, ready); err != nil {
		return r.operationError("in rotation", name, fmt.Errorf("its API server is not ready: %w", err))
	}
	if !r.recorded {
		done, err := r.install(ctx, t)
		if err != nil {
			return err
		}
		defer done()
	}
	if err := r.enter(ctx, t); err != nil {
		return r.operationError("in rotation", name, err)
	}
	problem.Progress(ctx, "replica %s is ready, and its machine %s %s", name, r.text().Serves, r.Address)
	return nil
}

// install makes the machine as the registration wants it. It changes nothing that is so already. The caller calls
// done when clients reach the machine again, or cannot.
func (r *Registrar[R]) install(ctx context.Context, t targets.Target) (done func(), err error) {
	m := r.ObserveMachine(ctx, t.Address)
	switch {
	case m.Err != nil:
		err = m.Err
	case m.Owner.Other(r.Registration):
		err = fmt.Errorf("%w: %s", endpoint.ErrOther, m.Owner)
	default:
		m, err = r.Kind.Prepare(ctx, r, t, m)
	}
	if err != nil {
		return nil, r.operationError("in rotation", t.Name, err)
	}
	if done, err = r.takeTurn(ctx, t, m); err != nil {
		return nil, r.operationError(r.text().Reconfigured, t.Name, err)
	}
	if err := r.apply(ctx, t, m); err != nil {
		done()
		return nil, r.operationError("in rotation", t.Name, err)
	}
	return done, nil
}

// takeTurn returns when the agent of a target may be restarted. One with other settings may not serve the address
// again, and a mistake in the settings is the same on all machines. So they are restarted one after the other,
// and only while all other replicas are in rotation.
func (r *Registrar[R]) takeTurn(ctx context.Context, t targets.Target, m Machine[R]) (done func(), err error) {
	own, err := netip.ParseAddr(t.Address)
	if err != nil {
		return nil, err
	}
	if !r.Kind.Restarts(r.Registration, m, r.Kind.Files(r.Registration, t.Name, own, m)) {
		return func() {}, nil
	}
	done, err = r.turns.Take(ctx, r.Registration)
	if err != nil {
		return nil, err
	}
	err = r.MayLeave(ctx, t.Name, r.inRotation(ctx, t.Name), targets.ToReturn, r.outOfRotation)
	if err != nil {
		done()
		return nil, err
	}
	return done, nil
}

// apply claims the machine, writes the agent's files and starts it.
func (r *Registrar[R]) apply(ctx context.Context, t targets.Target, m Machine[R]) error {
	own, err := netip.ParseAddr(t.Address)
	if err != nil {
		return err
	}
	h := r.Machine(t.Address)
	if _, err := endpoint.RunOwned(ctx, h, r.Kind.claim(r.Registration, t.Name)); err != nil {
		return err
	}
	_, err = h.Apply(ctx, r.Kind.change(r.Registration, r.Kind.Files(r.Registration, t.Name, own, m)))
	return err
}

// enter puts a ready replica into rotation.
func (r *Registrar[R]) enter(ctx context.Context, t targets.Target) error {
	answer, err := endpoint.RunOwned(ctx, r.Machine(t.Address), r.Kind.admit(r.Registration, t.Name))
	if err == nil && answer != endpoint.Owned {
		err = fmt.Errorf("unexpected answer %s", problem.Quote(string(answer)))
	}
	if err != nil {
		return err
	}
	return r.Kind.Enter(ctx, r, t)
}

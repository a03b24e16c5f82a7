package bgp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Registrar implements the interface of package controlplane for an endpoint that is announced by
// BGP.
type Registrar struct {
	*targets.Set
	passwords map[string]string
	turns     *targets.Turns
	// recorded means that a machine has recorded the registration. bird is not configured then: the
	// record of a machine that was taken over must not choose the password that is written there.
	recorded bool
}

// For returns the registrar of one registration.
func (e *Endpoints) For(registration endpoint.Registration) *Registrar {
	if registration.BGP == nil {
		registration.BGP = &endpoint.Announcement{} // ValidateRegistration refuses it
	}
	return &Registrar{Set: e.observer.For(registration), passwords: e.passwords, turns: e.turns}
}

// ForRecorded returns the registrar of a registration that a machine has recorded. It writes no
// password.
func (e *Endpoints) ForRecorded(registration endpoint.Registration) *Registrar {
	r := e.For(registration)
	r.recorded, r.passwords = true, nil
	return r
}

// at returns the registration as the machine of one target has it: with the target's peers.
func (r *Registrar) at(target string) endpoint.Registration {
	own, announcement := r.Registration, *r.BGP
	announcement.Peers = announcement.PeersOf(target)
	own.BGP = &announcement
	return own
}

// checkPasswords checks that every password that a peer names is known and valid.
func (r *Registrar) checkPasswords() error {
	if missing := missingPasswords(r.Registration, r.passwords); len(missing) > 0 {
		return fmt.Errorf("%w: %s", errNoPassword, strings.Join(missing, ", "))
	}
	for _, p := range r.BGP.Peers {
		if p.Password == "" {
			continue
		}
		if err := ValidatePassword(r.passwords[p.Password]); err != nil {
			return fmt.Errorf("password %s of peer %s: %w", p.Password, p.Address, err)
		}
	}
	return nil
}

var errNoPassword = errors.New("the configuration has no password of this name")

// Deregister removes everything from the machine. A machine that cannot be reached is skipped: if it
// is up, Delete of the endpoint removes the rest.
func (r *Registrar) Deregister(ctx context.Context, name string) error {
	if r.Hosts[name] == "" {
		return nil
	}
	return r.operationError("deregistered", name, r.clean(ctx, name))
}

func (r *Registrar) clean(ctx context.Context, name string) error {
	address := r.Hosts[name]
	_, err := endpoint.RunOwned(ctx, r.Machine(address), clean(r.Registration))
	switch {
	case errors.Is(err, endpoint.ErrOther):
		return nil
	case errors.Is(err, host.ErrUnreachable) && ctx.Err() == nil:
		problem.Progress(ctx, "skipped: machine %s: %v", name, err)
		return nil
	}
	return err
}

// Registered returns the differences from the state after Register, or nil.
func (r *Registrar) Registered(ctx context.Context, name, address string) ([]string, error) {
	t, err := r.At(name, address)
	if errors.Is(err, targets.ErrNotATarget) {
		return []string{err.Error()}, nil
	} else if err == nil {
		err = ValidateRegistration(r.Registration)
	}
	if err != nil {
		return nil, r.operationError("observed", name, err)
	}
	own, err := netip.ParseAddr(t.Address)
	if err != nil {
		return nil, r.operationError("observed", name, err)
	}
	m := observe(ctx, r.Machine(t.Address), r.Registration)
	if m.err != nil {
		return nil, r.operationError("observed", name, m.err)
	}
	differences := m.drift(r.at(t.Name), own, r.passwords)
	if err := r.Probe(ctx, t); err != nil {
		differences = append(differences, "not ready: "+problem.Line(err.Error()))
	}
	return differences, ctx.Err()
}

// LeavesByStopping returns false: the address is withdrawn before a replica stops.
func (*Registrar) LeavesByStopping() bool { return false }

// operationError is nil if err is.
func (r *Registrar) operationError(what, name string, err error) error {
	if err == nil {
		return nil
	}
	return &problem.Problem{
		Summary: "Replica " + name + " not " + what + " at endpoint " + r.Address,
		Host:    r.Hosts[name], Cause: err.Error(), Next: nextStep(err), Err: err,
	}
}

// nextStep says what to do about a machine that does not announce the address.
func nextStep(err error) string {
	switch {
	case errors.Is(err, targets.ErrNotATarget):
		return "add the replica to bgp.targets of the endpoint, then apply again"
	case errors.Is(err, errNoPassword):
		return "set the password of the session in the configuration of the provider, then apply again"
	case errors.Is(err, errPackages):
		return "make the packages installable on the machine, or install them by hand, then apply again"
	case errors.Is(err, errBarred):
		return "run the commands above on the machine, then apply again"
	case errors.Is(err, errBusyPort):
		return "let the other program bind another address, or none (such as passive sessions), then apply again"
	case errors.Is(err, errNoOwnAddress):
		return "use the address that the machine itself has as the replica's host.address and in bgp.targets (behind " +
			"address translation, BGP cannot work), then apply again"
	case errors.Is(err, errPort):
		return "give the replica the endpoint's port (port), then apply again"
	case errors.Is(err, errNoSession):
		return "check that the router (bgp.peers) has the machine as a neighbor, with the same ASNs and password, and that " +
			"TCP port 179 is open between them, then apply again"
	}
	return "fix the cause and apply again; completed steps are skipped"
}

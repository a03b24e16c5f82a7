package kubevip

import (
	"context"
	_ "embed"
	"errors"
	"net/netip"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

var (
	//go:embed apply.sh
	applyScript host.Script
	//go:embed admit.sh
	admitScript host.Script
	//go:embed drain.sh
	drainScript host.Script
	//go:embed clean.sh
	cleanScript host.Script
)

// Registrar implements the interface of package controlplane for an endpoint whose address kube-vip holds.
type Registrar struct {
	*targets.Set
	turns *targets.Turns
	// recorded means that a machine has recorded the registration. Nothing is written to a machine then: the
	// record of a machine that was taken over must not choose the program that others run.
	recorded bool
}

// For returns the registrar of one registration.
func (e *Endpoints) For(registration endpoint.Registration) *Registrar {
	if registration.KubeVIP == nil {
		registration.KubeVIP = &endpoint.Election{} // ValidateRegistration refuses it
	}
	return &Registrar{Set: e.observer.For(registration), turns: e.turns}
}

// ForRecorded returns the registrar of a registration that a machine has recorded. It only takes replicas out of
// rotation and returns them.
func (e *Endpoints) ForRecorded(registration endpoint.Registration) *Registrar {
	r := e.For(registration)
	r.recorded = true
	return r
}

// owned returns a script with the functions of endpoint.OwnerFunctions, for the endpoint of r. title is a
// comment: the first line of a script names it in messages.
func owned(title, script host.Script, r endpoint.Registration) host.Command {
	return host.Command{
		Script: title + host.FlushFunction() + endpoint.OwnerFunctions() + script,
		Vars: map[string]string{
			"cluster": r.ClusterID, "vip": r.Address, "length": length(r.Address), "config": configDir, "unit": unitName,
			"agent": agentPath,
			"run":   "/run/" + runName, "credential": credentialPath,
		},
	}
}

// claim returns the command that records whose replica the machine has.
func claim(r endpoint.Registration, replica string) host.Command {
	command := owned("# claim the machine\n", endpoint.ClaimScript(), r)
	command.Vars["record"] = r.Record(replica)
	return command
}

// Deregister removes everything from the machine. A machine that cannot be reached is skipped: if it is up,
// Delete of the endpoint removes the rest.
func (r *Registrar) Deregister(ctx context.Context, name string) error {
	if r.Hosts[name] == "" {
		return nil
	}
	return r.operationError("deregistered", name, r.clean(ctx, name))
}

func (r *Registrar) clean(ctx context.Context, name string) error {
	_, err := endpoint.RunOwned(ctx, r.Machine(r.Hosts[name]),
		owned("# remove the endpoint\n", cleanScript, r.Registration))
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
	differences := m.drift(r.Registration, name, own)
	if err := r.Probe(ctx, t); err != nil {
		differences = append(differences, "not ready: "+problem.Line(err.Error()))
	}
	return differences, ctx.Err()
}

// LeavesByStopping returns false: kube-vip stops before a replica does.
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

// nextStep says what to do about a machine that cannot hold the address.
func nextStep(err error) string {
	switch {
	case errors.Is(err, targets.ErrNotATarget):
		return "add the replica to kube_vip.targets of the endpoint, then apply again"
	case errors.Is(err, errNoProgram):
		return "install kube-vip at that path on the machine, or set kube_vip.program, then apply again"
	case errors.Is(err, errDigest):
		return "install the program with the digest in kube_vip.sha256, or correct it, then apply again"
	case errors.Is(err, errNoCommand):
		return "install it with the machine's package manager, then apply again"
	case errors.Is(err, errNoOwnAddress), errors.Is(err, errOtherNetwork):
		return "use an unused address in the network of the replicas' machines, and the addresses that the machines " +
			"themselves have in kube_vip.targets, or name the interface (kube_vip.interface); then apply again"
	case errors.Is(err, errPort):
		return "give the replica the endpoint's port (port), then apply again"
	case errors.Is(err, errNotHeld), errors.Is(err, errNoLease):
		return "read the log of the unit " + unitName + " on the machine, then apply again"
	case errors.Is(err, errNotReached):
		return "let the network pass ARP replies and packets for the address, or use an address that it passes; then " +
			"apply again"
	}
	return "fix the cause and apply again; completed steps are skipped"
}

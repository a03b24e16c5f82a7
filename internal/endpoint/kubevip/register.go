package kubevip

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// electionTimeout limits the wait for a holder, in addition to the duration of the Lease.
const electionTimeout = 30 * time.Second

var (
	errPort       = errors.New("clients reach the API server at the endpoint's address, so both need the same port")
	errNotHeld    = errors.New("no machine has the endpoint's address")
	errNotReached = errors.New("the endpoint does not answer")
)

// Register returns when the replica is ready, its machine is a candidate for the address, one machine has the
// address, and this one reaches it. address is IP:port.
func (r *Registrar) Register(ctx context.Context, name, address string) error {
	t, err := r.At(name, address)
	if err == nil {
		err = ValidateRegistration(r.Registration)
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
	if err := r.enter(ctx, t); err != nil {
		return r.operationError("in rotation", name, err)
	}
	problem.Progress(ctx, "replica %s is ready, and its machine is a candidate for %s", name, r.Address)
	return nil
}

// enter puts a ready replica into rotation.
func (r *Registrar) enter(ctx context.Context, t targets.Target) error {
	if !r.recorded {
		done, err := r.install(ctx, t)
		if err != nil {
			return err
		}
		defer done()
	}
	answer, err := endpoint.RunOwned(ctx, r.Machine(t.Address),
		owned("# put the replica into rotation\n", admitScript, r.Registration))
	if err == nil && answer != endpoint.Owned {
		err = fmt.Errorf("unexpected answer %s", problem.Quote(string(answer)))
	}
	if err != nil {
		return err
	}
	return r.waitUntilHeld(ctx, t)
}

// install makes the machine as the registration wants it. It changes nothing that is so already. The caller
// calls done when the machine is a candidate again, or has failed to become one: kube-vip is restarted on one
// machine at a time, and only while all others are candidates.
func (r *Registrar) install(ctx context.Context, t targets.Target) (done func(), err error) {
	h := r.Machine(t.Address)
	own, err := netip.ParseAddr(t.Address)
	if err != nil {
		return nil, err
	}
	m := observe(ctx, h, r.Registration)
	switch {
	case m.err != nil:
		return nil, m.err
	case m.owner.Other(r.Registration):
		return nil, fmt.Errorf("%w: %s", endpoint.ErrOther, m.owner)
	}
	if err := m.requirements(r.Registration); err != nil {
		return nil, err
	}
	wanted := files(r.Registration, t.Name, own, m.device(r.Registration))
	done = func() {}
	if m.restarts(r.Registration, t.Name, wanted) {
		if done, err = r.turns.Take(ctx, r.Registration); err != nil {
			return nil, err
		}
		if err := r.MayLeave(t.Name, r.inRotation(ctx), targets.ToReturn); err != nil {
			done()
			return nil, err
		}
	}
	if _, err = endpoint.RunOwned(ctx, h, claim(r.Registration, t.Name)); err == nil {
		command := owned("# apply the endpoint\n", applyScript, r.Registration)
		_, err = h.Apply(ctx, host.Change{
			Dirs: []host.Dir{
				{Path: "/opt/kube", Mode: 0o755}, {Path: programDir, Mode: 0o755}, {Path: configDir, Mode: 0o755},
			},
			Files: wanted, Links: []host.Link{{Path: wantPath, Target: unitPath}},
			Script: command.Script, Vars: command.Vars,
		})
	}
	if err != nil {
		done()
		return nil, err
	}
	return done, nil
}

// waitUntilHeld returns when the machine is a candidate, and reaches the address.
func (r *Registrar) waitUntilHeld(ctx context.Context, t targets.Target) error {
	return targets.WaitUntil(ctx, r.KubeVIP.LeaseDuration+electionTimeout, func(ctx context.Context) error {
		seen := r.observeMachines(ctx)
		if m := seen[t.Name]; m.err != nil {
			return m.err
		} else if why := m.outOfRotation(r.Registration, t.Name); why != nil {
			return why
		}
		return r.held(ctx, t, seen)
	})
}

// held returns why the address is not held by one machine that t reaches, or nil.
func (r *Registrar) held(ctx context.Context, t targets.Target, seen map[string]machine) error {
	holder, err := holderOf(seen)
	if errors.Is(err, errNotHeld) && slices.ContainsFunc(slices.Collect(maps.Values(seen)), unobserved) {
		holder, err = "a machine that cannot be observed", nil // if none has, nobody answers
	}
	if err != nil {
		return err
	}
	from := r.For(r.Registration)
	from.ProbeFrom = t.Address
	if err := from.Answers(ctx); err != nil {
		return fmt.Errorf("%w: %s has the address, and %s does not reach it: %w", errNotReached, holder, t.Name, err)
	}
	return nil
}

// unobserved reports whether a machine cannot be observed.
func unobserved(m machine) bool { return m.err != nil }

// holderOf returns the machine that has the address and is in rotation.
func holderOf(seen map[string]machine) (string, error) {
	holder := ""
	for name, m := range seen {
		switch {
		case m.err != nil || !m.report.Address:
		case holder != "":
			return "", fmt.Errorf("%w: %s and %s have it", errTwo, min(name, holder), max(name, holder))
		default:
			holder = name
		}
	}
	if holder == "" {
		return "", errNotHeld
	}
	return holder, nil
}

var errTwo = errors.New("two machines have the endpoint's address")

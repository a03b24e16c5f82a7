package bgp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/packages"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host/barrier"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

const (
	// sessionTimeout limits the wait for the first session.
	sessionTimeout = 30 * time.Second
	// othersTimeout limits the wait for the other sessions after the first: a router may be down.
	othersTimeout = 5 * time.Second
)

// Register returns when the replica is ready, and its machine announces the endpoint's address to at
// least one peer. address is IP:port.
func (r *Registrar) Register(ctx context.Context, name, address string) error {
	t, err := r.At(name, address)
	if err == nil {
		err = ValidateRegistration(r.Registration)
	}
	if err == nil && !r.recorded {
		err = r.checkPasswords()
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
		done, err := r.takeTurn(ctx, t)
		if err != nil {
			return r.operationError("configured again", name, err)
		}
		defer done()
		if err := r.install(ctx, t); err != nil {
			return r.operationError("in rotation", name, err)
		}
	}
	if err := r.admit(ctx, t); err != nil {
		return r.operationError("in rotation", name, err)
	}
	if err := r.waitUntilAnnounced(ctx, t); err != nil {
		return r.operationError("in rotation", name, err)
	}
	problem.Progress(ctx, "replica %s is ready, and its machine announces %s", name, r.Address)
	return nil
}

var (
	errPort     = errors.New("clients reach the API server at the endpoint's address, so both need the same port")
	errBusyPort = errors.New("another program listens on the port of BGP")
	errPackages = errors.New("packages cannot be installed")

	errBarred = errors.New("routers do not reach the machine")

	errNoOwnAddress = errors.New("the machine has no interface with its own address, from which its sessions come")
)

// install makes the machine as the registration wants it. It changes nothing that is so already.
func (r *Registrar) install(ctx context.Context, t targets.Target) error {
	h := r.Machine(t.Address)
	m := observe(ctx, h, r.Registration)
	if m.err != nil {
		return m.err
	}
	if err := r.preflight(t, m); err != nil {
		return err
	}
	if err := r.checkBarriers(ctx, t, m); err != nil {
		return err
	}
	if missing := packages.BGP().Missing(m.facts); len(missing) > 0 {
		problem.Progress(ctx, "install %s on %s", strings.Join(missing, ", "), t.Name)
		if _, err := h.Run(ctx, packages.BGP().Install(missing)); err != nil {
			return fmt.Errorf("%w (%s): %w", errPackages, strings.Join(missing, ", "), err)
		}
		if m = observe(ctx, h, r.Registration); m.err != nil {
			return m.err
		}
		if left := packages.BGP().Missing(m.facts); len(left) > 0 {
			return fmt.Errorf("%w: %s is not there after the installation", errPackages, strings.Join(left, ", "))
		}
	}
	claim := owned("# claim the machine\n", endpoint.ClaimScript(), r.Registration,
		map[string]string{"record": r.Record(t.Name)})
	if _, err := endpoint.RunOwned(ctx, h, claim); err != nil {
		return err
	}
	own, err := netip.ParseAddr(t.Address)
	if err != nil {
		return err
	}
	_, err = h.Apply(ctx, change(r.at(t.Name), own, m.facts, r.passwords))
	return err
}

// bfdPort is where sessions of BFD listen, RFC 5881; bfdMultihopPort is that of RFC 5883.
const (
	bfdPort         = 3784
	bfdMultihopPort = 4784
)

// checkBarriers returns why routers would not reach a machine that announces nothing yet.
func (r *Registrar) checkBarriers(ctx context.Context, t targets.Target, m machine) error {
	if m.facts.Units[birdUnit].MainPID > 0 {
		return nil
	}
	needs := barrier.Needs{Openings: openings(r.at(t.Name).BGP.Peers)}
	problems, err := barrier.Problems(ctx, r.Machine(t.Address), needs)
	if err == nil && len(problems) > 0 {
		err = fmt.Errorf("%w: %s", errBarred, strings.Join(problems, "; "))
	}
	return err
}

// openings is what routers send to a machine.
func openings(peers []endpoint.Peer) []barrier.Opening {
	var all []barrier.Opening
	for _, p := range peers {
		address, err := netip.ParseAddr(p.Address)
		if err != nil {
			continue // refused by ValidateRegistration
		}
		from := []netip.Addr{address}
		all = append(all, barrier.Opening{Protocol: "tcp", Port: bgpPort, From: from})
		switch {
		case p.BFD && p.Multihop > 0:
			all = append(all, barrier.Opening{Protocol: "udp", Port: bfdMultihopPort, From: from})
		case p.BFD:
			all = append(all, barrier.Opening{Protocol: "udp", Port: bfdPort, From: from})
		}
	}
	return all
}

// preflight returns why the machine must not be changed.
func (r *Registrar) preflight(t targets.Target, m machine) error {
	if m.owner.Other(r.Registration) {
		return fmt.Errorf("%w: %s", endpoint.ErrOther, m.owner)
	}
	if !m.report.Own {
		return fmt.Errorf("%w: %s", errNoOwnAddress, t.Address)
	}
	if len(packages.BGP().Missing(m.facts)) > 0 && !packages.HasManager(m.facts) {
		return fmt.Errorf("%w: the machine has none of %s", errPackages, strings.Join(packages.Managers(), ", "))
	}
	listener, busy := m.facts.Listeners[bgpPort]
	if !busy || m.facts.Units[birdUnit].MainPID > 0 {
		return nil
	}
	own, err := netip.ParseAddr(t.Address)
	if err != nil {
		return err
	}
	for _, text := range listener.Addresses {
		at, bad := netip.ParseAddr(strings.Trim(text, "[]"))
		if text == "*" || bad == nil && (at.IsUnspecified() || at.Unmap() == own) {
			return fmt.Errorf("%w: %s on %s port %d", errBusyPort, listener.Process, text, bgpPort)
		}
	}
	return nil
}

// admit puts the replica into rotation on its machine.
func (r *Registrar) admit(ctx context.Context, t targets.Target) error {
	answer, err := endpoint.RunOwned(ctx, r.Machine(t.Address),
		owned("# put the replica into rotation\n", admitScript, r.Registration, nil))
	if err == nil && answer != endpoint.Owned {
		err = fmt.Errorf("unexpected answer %s", problem.Quote(string(answer)))
	}
	return err
}

// waitUntilAnnounced returns when every peer knows the address, or when at least one does and the
// others do not answer. Then the network has had the time to follow.
func (r *Registrar) waitUntilAnnounced(ctx context.Context, t targets.Target) error {
	var silent []string
	first := time.Time{}
	err := targets.WaitUntil(ctx, sessionTimeout, func(ctx context.Context) error {
		m := observe(ctx, r.Machine(t.Address), r.Registration)
		if m.err != nil {
			return m.err
		}
		if why := m.outOfRotation(r.Registration); why != nil {
			first = time.Time{}
			if silent = m.silentPeers(r.at(t.Name)); len(silent) > 0 {
				why = fmt.Errorf("%w: %s", why, strings.Join(silent, "; "))
			}
			return why
		}
		if first.IsZero() {
			first = time.Now()
		}
		silent = m.silentPeers(r.at(t.Name))
		if len(silent) > 0 && time.Since(first) < othersTimeout {
			return errNotAnnounced
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, line := range silent {
		problem.Progress(ctx, "replica %s: %s", t.Name, line)
	}
	return r.propagate(ctx)
}

// propagate waits until the network has followed.
func (r *Registrar) propagate(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-time.After(r.BGP.Propagation):
	}
	return ctx.Err()
}

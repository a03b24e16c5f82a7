package bgp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host/barrier"
	"github.com/kubequorum/terraform-provider-kube/internal/packages"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

var (
	errBusyPort = errors.New("another program listens on the port of BGP")
	errPackages = errors.New("packages cannot be installed")
	// errKeepPackages means that packages are missing that must not be installed.
	errKeepPackages = errors.New("packages are not installed")

	errBarred = errors.New("routers do not reach the machine")

	errNoOwnAddress = errors.New("the machine has no interface with its own address, from which its sessions come")
)

// prepare checks the machine, and installs the packages that it lacks.
func prepare(ctx context.Context, r *registrar, t targets.Target, m machine) (machine, error) {
	if err := preflight(r.Registration, t, m); err != nil {
		return m, err
	}
	if err := checkBarriers(ctx, r, t, m); err != nil {
		return m, err
	}
	missing := packages.BGP().Missing(m.Facts)
	if len(missing) == 0 {
		return m, nil
	}
	problem.Progress(ctx, "install %s on %s", strings.Join(missing, ", "), t.Name)
	if _, err := r.Machine(t.Address).Run(ctx, packages.BGP().Install(m.Facts)); err != nil {
		return m, fmt.Errorf("%w (%s): %w", errPackages, strings.Join(missing, ", "), err)
	}
	if m = r.ObserveMachine(ctx, t.Address); m.Err != nil {
		return m, m.Err
	}
	if left := packages.BGP().Missing(m.Facts); len(left) > 0 {
		return m, fmt.Errorf("%w: %s is not there after the installation", errPackages, strings.Join(left, ", "))
	}
	return m, nil
}

// bfdPort is where sessions of BFD listen, RFC 5881; bfdMultihopPort is that of RFC 5883.
const (
	bfdPort         = 3784
	bfdMultihopPort = 4784
)

// checkBarriers returns why routers would not reach a machine that announces nothing yet.
func checkBarriers(ctx context.Context, r *registrar, t targets.Target, m machine) error {
	if m.Facts.Units[birdUnit].MainPID > 0 {
		return nil
	}
	needs := barrier.Needs{Openings: openings(r.BGP.PeersOf(t.Name))}
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
func preflight(registration endpoint.Registration, t targets.Target, m machine) error {
	if !m.Report.Own {
		return fmt.Errorf("%w: %s", errNoOwnAddress, t.Address)
	}
	switch missing := packages.BGP().Missing(m.Facts); {
	case len(missing) == 0:
	case registration.BGP.KeepPackages:
		return fmt.Errorf("%w: %s", errKeepPackages, strings.Join(missing, ", "))
	case !packages.HasManager(m.Facts):
		return fmt.Errorf("%w: the machine has none of %s", errPackages, strings.Join(packages.Managers(), ", "))
	}
	listener, busy := m.Facts.Listeners[bgpPort]
	if !busy || m.Facts.Units[birdUnit].MainPID > 0 {
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

func waitUntilAnnounced(ctx context.Context, r *registrar, t targets.Target) error {
	return r.WaitUntilAnnounced(ctx, t, func(m machine) []string { return silentPeers(m, At(r.Registration, t.Name)) })
}

package bgp

import (
	"context"
	"net/netip"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// takeTurn returns when the sessions of a target may be configured again. Other sessions, such as
// with another autonomous system, may not come up, and a mistake in the configuration is the same on
// all machines. So they are changed one machine after the other, and only while all others announce
// the address. The caller calls done when the machine announces it again, or has failed to.
func (r *Registrar) takeTurn(ctx context.Context, t targets.Target) (done func(), err error) {
	own, err := netip.ParseAddr(t.Address)
	if err != nil {
		return nil, err
	}
	m := observe(ctx, r.Machine(t.Address), r.Registration)
	if m.err != nil {
		return nil, m.err
	}
	if !m.reconfigures(r.Registration, files(r.at(t.Name), own, m.facts, r.passwords)) {
		return func() {}, nil
	}
	done, err = r.turns.Take(ctx, r.Registration)
	if err != nil {
		return nil, err
	}
	if err := r.MayLeave(t.Name, r.inRotation(ctx), targets.ToReturn); err != nil {
		done()
		return nil, err
	}
	return done, nil
}

// reconfigures reports whether bird of a machine that announces the address would get another
// configuration.
func (m machine) reconfigures(r endpoint.Registration, wanted []host.File) bool {
	return m.outOfRotation(r) == nil && slices.ContainsFunc(wanted, func(file host.File) bool {
		return file.Path == configPath && len(endpoint.FileDrift(m.facts.Files, file, nil)) > 0
	})
}

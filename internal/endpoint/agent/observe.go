package agent

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// recordPath is where the record of a machine is.
func (k Kind[R]) recordPath() string { return k.ConfigDir + "/endpoint.json" }

// observeTimeout limits one observation of all machines.
const observeTimeout = 30 * time.Second

// ObserveMachine observes the machine at an address. One that hangs has the error host.ErrNoAnswer before ctx ends.
func (r *Registrar[R]) ObserveMachine(ctx context.Context, address string) (m Machine[R]) {
	m.Err = host.InTime(ctx, address, func(ctx context.Context) error {
		m = r.observe(ctx, address)
		return m.Err
	})
	return m
}

func (r *Registrar[R]) observe(ctx context.Context, address string) Machine[R] {
	own, err := netip.ParseAddr(address)
	if err != nil {
		return Machine[R]{Err: err}
	}
	facts, err := r.Machine(address).Observe(ctx, r.Kind.query(r.Registration, own))
	if err != nil {
		return Machine[R]{Err: err}
	}
	return Machine[R]{
		Facts: facts, Owner: endpoint.ReadOwner(facts.Files[r.Kind.recordPath()].Content),
		Report: r.Kind.Parse(facts.Output, r.Registration, own),
	}
}

// query asks for everything that a registration puts on a machine.
func (k Kind[R]) query(r endpoint.Registration, own netip.Addr) host.Query {
	q := k.Query(r, own)
	q.Contents = append(q.Contents, k.recordPath())
	q.Units = append(q.Units, k.Units...)
	for _, unit := range k.Units {
		q.Files = append(q.Files, UnitDir+unit)
	}
	for _, path := range q.Files {
		q.Files = append(q.Files, host.AlteredMark(path))
	}
	return q
}

// Rewrites reports whether writing these files changes something, or what an earlier change has written is not in use
// yet.
func (m Machine[R]) Rewrites(wanted []host.File) bool {
	return slices.ContainsFunc(wanted, func(file host.File) bool {
		return m.unused(file) || len(endpoint.FileDrift(m.Facts.Files, file, nil)) > 0
	})
}

// unused reports whether the change that has written a file was cut off before the agent was restarted.
func (m Machine[R]) unused(file host.File) bool {
	_, marked := m.Facts.Files[host.AlteredMark(file.Path)]
	return marked
}

// ObserveMachines observes the machines of all targets in parallel. One that hangs keeps a caller that waits for the
// others for two thirds of observeTimeout at most.
func (r *Registrar[R]) ObserveMachines(ctx context.Context) map[string]Machine[R] {
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	var (
		mu   sync.Mutex
		all  sync.WaitGroup
		seen = map[string]Machine[R]{}
	)
	for name, address := range r.Hosts {
		all.Go(func() {
			m := r.ObserveMachine(ctx, address)
			mu.Lock()
			defer mu.Unlock()
			seen[name] = m
		})
	}
	all.Wait()
	return seen
}

// Drift describes how a machine differs from what Register leaves behind.
func (k Kind[R]) Drift(r endpoint.Registration, name string, own netip.Addr, m Machine[R]) []string {
	if m.Owner.Other(r) {
		return []string{"the machine belongs to " + m.Owner.String()}
	}
	if !m.Owner.Exists() {
		return []string{"not registered: " + k.Text(r).Unregistered}
	}
	differences := k.Lacks(r, m)
	for _, wanted := range k.Files(r, name, own, m) {
		differences = append(differences, endpoint.FileDrift(m.Facts.Files, wanted, nil)...)
		if m.unused(wanted) {
			differences = append(differences, wanted.Path+" is not in use yet: the apply that has written it was cut off")
		}
	}
	for _, unit := range k.Units {
		differences = append(differences, endpoint.UnitDrift(unit, m.Facts.Units[unit])...)
	}
	differences = append(differences, k.Differs(r, m)...)
	if why := k.OutOfRotation(r, m); why != nil {
		differences = append(differences, "out of rotation: "+why.Error())
	}
	if k.Silent != nil {
		differences = append(differences, k.Silent(r, name, m)...)
	}
	return differences
}

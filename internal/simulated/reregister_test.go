package simulated

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
)

// exclusive is an endpoint whose registrations have to be alone.
type exclusive struct {
	controlplane.Registrar
	leased     func() bool // the lease of the control plane is held
	running    *atomic.Int32
	alone, all *atomic.Int32
}

func (e exclusive) Register(ctx context.Context, name, address string) error {
	e.all.Add(1)
	if e.running.Add(1) == 1 && e.leased() {
		e.alone.Add(1)
	}
	err := e.Registrar.Register(ctx, name, address)
	e.running.Add(-1)
	return err
}

// TestReturnIsAlone: replicas without drift that are applied at once are registered one after the other, under the
// lease of the control plane: a registration may restart the agent of an endpoint.
func TestReturnIsAlone(t *testing.T) {
	fleet, p := planeOn(t, 1)
	name := "replicas-" + p.endpoint.ClusterID
	var running, alone, all atomic.Int32
	var updates sync.WaitGroup
	for _, s := range p.servers {
		s.Registrar = exclusive{
			Registrar: s.Registrar, running: &running, alone: &alone, all: &all,
			leased: func() bool {
				return slices.ContainsFunc(fleet.clusters[0].machines, func(m *machine) bool { return m.holds(name) })
			},
		}
		updates.Go(func() {
			if _, err := p.replicas.Update(t.Context(), s); err != nil {
				t.Error(err)
			}
		})
	}
	updates.Wait()
	if all.Load() != perCluster || alone.Load() != all.Load() {
		t.Errorf("%d of %d registrations were alone, under the lease", alone.Load(), all.Load())
	}
}

// holds reports whether a lease is held on the machine.
func (m *machine) holds(lease string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leases[lease] < 0
}

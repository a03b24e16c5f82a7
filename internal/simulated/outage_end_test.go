package simulated

import (
	"context"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
)

// cancelling is an endpoint at which a drain is interrupted by the user.
type cancelling struct {
	*noting
	cancel func()
}

func (e cancelling) Drain(ctx context.Context, _ string) error {
	e.cancel()
	return ctx.Err()
}

// TestOutageInterruptedBeforeItStops: an outage whose drain was interrupted has stopped nothing, so its end waits for
// no lock, and changes nothing.
func TestOutageInterruptedBeforeItStops(t *testing.T) {
	_, p := planeOn(t, 1)
	s := p.servers[0]
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	e := cancelling{&noting{Registrar: s.Registrar}, cancel}
	outage := p.replicas.Outage(controlplane.StackedMember{
		Host: s.Host, Bundle: s.Bundle, EtcdURL: s.EtcdURLs[0],
		Registrar: func(controlplane.Recorded) (controlplane.Registrar, error) { return e, nil },
	})
	defer outage.Open()()
	if err := outage.Begins(ctx); err == nil || ctx.Err() == nil {
		t.Fatalf("the drain was not interrupted: %v", err)
	}
	if err := outage.Ended(t.Context()); err != nil || len(e.take()) > 0 {
		t.Errorf("its end has changed something, or failed: %v", err)
	}
}

// TestOutageOfAStoppedMember: while the only member of a paused replica does not run, the replica is not started.
func TestOutageOfAStoppedMember(t *testing.T) {
	fleet, p := planeOn(t, 1)
	m, s := fleet.clusters[0].machines[0], p.servers[0]
	m.pause()
	m.mu.Lock()
	m.units[layout.Unit].active = false
	m.mu.Unlock()
	e := &noting{Registrar: s.Registrar}
	err := p.replicas.Outage(controlplane.StackedMember{
		Host: s.Host, Bundle: s.Bundle, EtcdURL: s.EtcdURLs[0],
		Registrar: func(controlplane.Recorded) (controlplane.Registrar, error) { return e, nil },
	}).Ended(t.Context())
	if err == nil || !strings.Contains(err.Error(), "its etcd member does not run") || len(e.take()) > 0 {
		t.Errorf("got %v", err)
	}
	running := m.active("kube-apiserver.service")
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, paused := m.files[runtime.Named("").PausedPath()]; running || !paused {
		t.Errorf("running: %t, paused: %t", running, paused)
	}
}

package simulated

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestHungBalancer: while a balancer hangs, no replica leaves rotation, and the balancer does not leave. That is
// refused before anything is changed, with the machine that hangs and what to do, and before the time of the
// operation has passed. A replica returns to rotation on the others.
func TestHungBalancer(t *testing.T) {
	fleet, p := bareOn(t, 1)
	if _, err := haproxy.Create(t.Context(), p.endpoint); err != nil {
		t.Fatal(err)
	}
	hung := fleet.clusters[0].machines[perCluster-1]
	hang(t, hung)
	fleet.Count()
	registrar := p.registrars.For(p.endpoint.Registration())
	var all sync.WaitGroup
	for what, change := range map[string]func(context.Context) error{
		"drained":              func(ctx context.Context) error { return registrar.Drain(ctx, "r") },
		"drained for a delete": func(ctx context.Context) error { return registrar.DrainForDelete(ctx, "r", true) },
		"deregistered":         func(ctx context.Context) error { return registrar.Deregister(ctx, "r") },
		"taken out": func(ctx context.Context) error {
			_, err := haproxy.Update(ctx, p.endpoint, p.withHosts("cp1", "cp2"))
			return err
		},
	} {
		all.Go(func() {
			err := inTime(t, 15*time.Second, change)
			if !errors.Is(err, host.ErrNoAnswer) || !strings.Contains(err.Error(), "Host: "+hung.name+" ("+hung.address+")\n") ||
				!strings.Contains(err.Error(), "switch ") {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	all.Wait()
	if c := fleet.Count(); c.Commands != c.Kinds["observe"]+c.Kinds["barrier"] {
		t.Errorf("machines were changed: %v", c.Kinds)
	}
	err := inTime(t, 15*time.Second, func(ctx context.Context) error {
		return registrar.Register(ctx, "r", fleet.clusters[0].machines[0].address+":6443")
	})
	if !errors.Is(err, host.ErrNoAnswer) || !strings.Contains(err.Error(), "the replica is registered on the others") {
		t.Errorf("registered: %v", err)
	}
	if c := fleet.Count(); c.Kinds["register"] != perCluster-1 {
		t.Errorf("registered on %d balancers, want on all but the one that hangs: %v", c.Kinds["register"], c.Kinds)
	}
}

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

// TestHungBalancer: a change of what is in rotation, and the removal of the balancer, is refused before anything is
// changed, with the machine that hangs and what to do, and before the time of the operation has passed.
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
		"registered": func(ctx context.Context) error {
			return registrar.Register(ctx, "r", fleet.clusters[0].machines[0].address+":6443")
		},
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
				!strings.Contains(err.Error(), "switch the machine off") {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	all.Wait()
	if c := fleet.Count(); c.Commands != c.Kinds["observe"]+c.Kinds["barrier"] {
		t.Errorf("machines were changed: %v", c.Kinds)
	}
}

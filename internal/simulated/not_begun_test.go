package simulated

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// TestCreateNotBegun: a Create that fails before it has seen the machine of the replica leaves no state. The next apply
// would delete a replica that serves, or first one at an address that has never had one.
func TestCreateNotBegun(t *testing.T) {
	fleet, p := planeOn(t, 1)
	held, off := fleet.clusters[0].machines[0], fleet.clusters[0].machines[1]
	pool, err := host.NewPool(host.Config{Overrides: map[string]host.Override{
		off.address: {Address: "127.0.0.1", Port: 1}, // where nothing listens
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, taken := held.takeLease("replica", ""); !taken {
		t.Fatal("the lease is held")
	}
	elsewhere := p.servers[1]
	elsewhere.Host = pool.Host(host.Target{Address: off.address})
	for name, c := range map[string]struct {
		server controlplane.Spec
		want   error
	}{
		"another process has the lease": {p.servers[0], context.DeadlineExceeded},
		"unreachable":                   {elsewhere, host.ErrUnreachable},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := p.replicas.Create(ctx, c.server); !problem.Untouched(err) || !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

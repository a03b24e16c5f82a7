package simulated

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// hang makes a machine accept connections and commands that never end, until the test does.
func hang(t *testing.T, m *machine) {
	t.Helper()
	t.Cleanup(m.fleet.Hang(m.address))
}

// inTime calls a read that has to end before its time has.
func inTime(t *testing.T, limit time.Duration, read func(ctx context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	err := read(ctx)
	if ctx.Err() != nil {
		t.Errorf("a read took all of its %s: %v", limit, err)
	}
	return err
}

// TestHungMachine: everything on other machines is read while one hangs, and what is on that one fails with an error of
// which a refresh makes a warning.
func TestHungMachine(t *testing.T) {
	fleet, p := planeOn(t, 1)
	machines := fleet.clusters[0].machines
	hung := machines[0]
	hang(t, hung)
	var all sync.WaitGroup
	read := func(what string, at *machine, limit time.Duration, f func(ctx context.Context) error) {
		all.Go(func() {
			err := inTime(t, limit, f)
			switch {
			case at != hung && err != nil:
				t.Errorf("%s: %v", what, err)
			case at == hung && (!errors.Is(err, host.ErrNoAnswer) || !host.Unanswered(err) ||
				!strings.Contains(err.Error(), hung.address)):
				t.Errorf("%s on the machine that hangs: %v", what, err)
			}
		})
	}
	read("endpoint", nil, 15*time.Second, func(ctx context.Context) error {
		status, err := p.registrars.Read(ctx, p.endpoint)
		if err == nil && len(status.Drift) > 0 {
			return fmt.Errorf("drift: %q", status.Drift)
		}
		return err
	})
	for i, m := range machines {
		read("member", m, 15*time.Second, func(ctx context.Context) error {
			_, err := p.clusters.Read(ctx, p.members[i])
			return err
		})
		read("replica", m, 36*time.Second, func(ctx context.Context) error { // the balancers have two thirds of 30
			_, err := p.replicas.Read(ctx, p.servers[i])
			return err
		})
		read("authority of an API server", m, 15*time.Second, func(ctx context.Context) error {
			_, err := p.replicas.EtcdTrust(ctx, m.address)
			return err
		})
	}
	all.Wait()
}

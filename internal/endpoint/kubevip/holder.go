package kubevip

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/agent"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
)

// electionTimeout limits the wait for a holder, in addition to the duration of the Lease.
const electionTimeout = 30 * time.Second

var (
	errNotHeld    = errors.New("no machine has the endpoint's address")
	errNotReached = errors.New("the endpoint does not answer")
	errTwo        = errors.New("two machines have the endpoint's address")
)

// handOver returns when another machine has the address and answers, if another replica is in rotation. kube-vip has
// ended on the machine of t.
func handOver(ctx context.Context, r *registrar, t targets.Target, others bool) error {
	if !others {
		return nil
	}
	return targets.WaitUntil(ctx, r.KubeVIP.LeaseDuration+electionTimeout, func(ctx context.Context) error {
		return held(ctx, r, t, r.ObserveMachines(ctx))
	})
}

// waitUntilHeld returns when the machine is a candidate, and reaches the address. m is what was observed then.
func waitUntilHeld(ctx context.Context, r *registrar, t targets.Target) (m machine, err error) {
	err = targets.WaitUntil(ctx, r.KubeVIP.LeaseDuration+electionTimeout, func(ctx context.Context) error {
		seen := r.ObserveMachines(ctx)
		m = seen[t.Name]
		if m.Err != nil {
			return m.Err
		}
		if why := outOfRotation(r.Registration, m); why != nil {
			return why
		}
		return held(ctx, r, t, seen)
	})
	return m, err
}

// held returns why the address is not held by one machine that t reaches, or nil.
func held(ctx context.Context, r *registrar, t targets.Target, seen map[string]machine) error {
	holder, err := holderOf(seen)
	if errors.Is(err, errNotHeld) && slices.ContainsFunc(slices.Collect(maps.Values(seen)), unobserved) {
		holder, err = "a machine that cannot be observed", nil // if none has, nobody answers
	}
	if err != nil {
		return err
	}
	from := r.For(r.Registration)
	from.ProbeFrom = t.Address
	if err := from.Answers(ctx); err != nil {
		return fmt.Errorf("%w: %s has the address, and %s does not reach it: %w", errNotReached, holder, t.Name, err)
	}
	return nil
}

// unobserved reports whether a machine cannot be observed.
func unobserved(m machine) bool { return m.Err != nil }

// holderOf returns the machine that has the address and is in rotation.
func holderOf(seen map[string]machine) (string, error) {
	holder := ""
	for name, m := range seen {
		switch {
		case m.Err != nil || !m.Report.Address:
		case holder != "":
			return "", fmt.Errorf("%w: %s and %s have it", errTwo, min(name, holder), max(name, holder))
		default:
			holder = name
		}
	}
	if holder == "" {
		return "", errNotHeld
	}
	return holder, nil
}

func silence(ctx context.Context, r *registrar, h targets.Health) string {
	if announces(r.Registration) {
		return agent.NotAnnounced(h)
	}
	if _, err := holderOf(r.ObserveMachines(ctx)); err != nil {
		return err.Error()
	}
	return ""
}

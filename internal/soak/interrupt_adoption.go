package soak

import (
	"context"
	"fmt"
	"time"
)

// adoptionScenarios interrupt the first applies to a control plane of one machine that kubeadm has created. Each run
// begins with one that is created anew.
func adoptionScenarios() []Scenario {
	return []Scenario{
		cutAdoption("first change", (*sweep).adopt),
		cutAdoption("import with a change", (*sweep).begin),
	}
}

// cutAdoption is the scenario of a changed flag, the first restart with a manifest of the provider. before makes the
// control plane.
func cutAdoption(name string, before func(*sweep, context.Context) error) Scenario {
	run := func(ctx context.Context, e *Env) ([]Result, error) {
		s, err := controlPlaneSweep(e, "adoption")
		if err != nil {
			return nil, err
		}
		s.order, s.more, s.stable = machineNames[:1], nil, s.answering
		s.surround = func(ctx context.Context) (map[string]any, error) { return createByKubeadm(ctx, e, s.all(), false) }
		changed := operation{
			name: "adoption: " + name, machines: 1,
			before:    func(ctx context.Context) error { return before(s, ctx) },
			variables: adoptedWith(map[string]string{"goaway-chance": "0"}),
			check:     func(ctx context.Context) error { return s.all().runBy(ctx, byStaticPod) },
		}
		return s.run(ctx, e.track(changed), uninterrupted(operation{name: changed.name + ", after it"}))
	}
	return Scenario{Name: "interrupt adoption: " + name, Builds: []string{nodeBuild}, Run: run}
}

// adoptedWith returns the variables with additional flags of the API server.
func adoptedWith(flags map[string]string) func(int) map[string]any {
	return func(int) map[string]any { return controlPlane(map[string]any{"apiserver_extra_args": flags}) }
}

// adopt imports what kubeadm has created, without a change of what runs, and writes a key.
func (s *sweep) adopt(ctx context.Context) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	imported := operation{name: "adoption: import", machines: 1, variables: adoptedWith(map[string]string{})}
	if err := s.reachEnd(ctx, uninterrupted(imported)); err != nil {
		return err
	}
	return s.put(ctx)
}

// answering waits until all components are healthy, and the balancer leads to them. While the only API server restarts,
// the others lose their leases and end, and the kubelet starts them again.
func (s *sweep) answering(ctx context.Context, used fleet) error {
	return eventually(ctx, clusterTimeout, time.Second, func(ctx context.Context) error {
		for _, m := range used {
			script := with(map[string]string{
				"address": m.Address.String(), "vip": fmt.Sprint(s.variables["endpoint_address"]),
			}, componentsScript)
			if out, err := m.Run(ctx, script); err != nil {
				return fmt.Errorf("%s does not serve: %w: %s", m.Name, err, out)
			}
		}
		return nil
	})
}

package soak

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
)

// controlPlaneScenarios interrupt the operations of a whole control plane at random commands.
func controlPlaneScenarios() []Scenario {
	return []Scenario{{Name: "interrupt control plane", Run: interruptControlPlane}}
}

// newControlPlaneSweep returns a sweep for operations of the example. The whole control plane
// must serve after each of them.
func newControlPlaneSweep(ctx context.Context, e *Env) (*sweep, error) {
	root, err := build.Checkout()
	if err != nil {
		return nil, err
	}
	s, err := newSweep(ctx, e, os.DirFS(filepath.Join(root, "examples", "control-plane")))
	if err != nil {
		return nil, err
	}
	s.more = s.serving
	return s, nil
}

// interruptControlPlane runs its operations in turn, each time with one random point.
func interruptControlPlane(ctx context.Context, e *Env) ([]Result, error) {
	s, err := newControlPlaneSweep(ctx, e)
	if err != nil {
		return nil, err
	}
	var tracks []*track
	for _, o := range []operation{
		{name: "control plane create", machines: 3, variables: verbosity(2)},
		{name: "control plane change", machines: 3, variables: verbosity(3)},
		{name: "control plane replace", machines: 3, variables: verbosity(3), once: func(context.Context) ([]string, error) {
			name := machineNames[e.Random.IntN(len(machineNames))]
			return []string{fmt.Sprintf("-replace=kube_control_plane_replica.this[%q]", name)}, nil
		}},
		{name: "control plane scale down", machines: 2, variables: verbosity(3)},
		{name: "control plane destroy"},
	} {
		tracks = append(tracks, newTrack(o, &randomPoints{random: e.Random, left: e.Sample}))
	}
	return s.run(ctx, tracks...)
}

// verbosity sets a flag of kube-apiserver, with a drain timeout that suits tests.
func verbosity(level int) func(int) map[string]any {
	return func(int) map[string]any {
		return map[string]any{"apiserver_extra_args": map[string]string{"v": strconv.Itoa(level)}, "drain_timeout": "2s"}
	}
}

// serving returns what does not serve on a machine in use, or nil. All components must be
// healthy, the virtual IP must answer, and the backends must be exactly the replicas.
func (s *sweep) serving(ctx context.Context, used fleet) error {
	var names []string
	for _, m := range used {
		names = append(names, m.Name)
	}
	want := fmt.Sprintf("told %[1]s\nuses %[1]s\n", strings.Join(slices.Sorted(slices.Values(names)), " "))
	for _, m := range used {
		out, err := m.Run(ctx, with(map[string]string{"address": m.Address.String(), "vip": s.work.VIP()}, servingScript))
		if err != nil {
			return fmt.Errorf("%s does not serve: %w", m.Name, err)
		}
		if out != want {
			return fmt.Errorf("the balancer on %s: %q, want %q", m.Name, out, want)
		}
	}
	return nil
}

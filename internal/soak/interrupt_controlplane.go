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

// controlPlaneScenarios interrupt the operations of a whole control plane.
func controlPlaneScenarios() []Scenario {
	return []Scenario{
		cutControlPlane("create, destroy",
			operation{name: "control plane create", machines: 3, variables: verbosity},
			operation{name: "control plane destroy", afterHealthInterval: true}),
		cutControlPlane("scale up, scale down",
			operation{name: "control plane scale up", machines: 3, variables: verbosity},
			operation{name: "control plane scale down", machines: 2, variables: verbosity, afterHealthInterval: true}),
		cutControlPlane("change", changing("control plane change")),
		cutControlPlane("replace", operation{
			name: "control plane replace", machines: 3, variables: verbosity,
			once: []string{fmt.Sprintf("-replace=kube_control_plane_replica.this[%q]", machineNames[1])},
		}),
		cutControlPlane("rotation", stagesOf("rotation", 3, rotationAt)...),
		cutControlPlane("encryption at rest", stagesOf("encryption", 9, encryptionAt)...),
	}
}

// cutControlPlane is the scenario of operations that lead back to the start of the first one.
func cutControlPlane(name string, operations ...operation) Scenario {
	return Scenario{Name: "interrupt control plane: " + name, Run: func(ctx context.Context, e *Env) ([]Result, error) {
		s, err := newControlPlaneSweep(ctx, e)
		if err != nil {
			return nil, err
		}
		var tracks []*track
		for _, o := range operations {
			tracks = append(tracks, e.track(o))
		}
		return s.run(ctx, tracks...)
	}}
}

// changing is an operation that restarts every API server each time.
func changing(name string) operation {
	return operation{name: name, machines: 3, variables: func(n int) map[string]any {
		return controlPlane(map[string]any{"apiserver_extra_args": map[string]string{"v": strconv.Itoa(1 + n%3)}})
	}}
}

// verbosity sets a flag of kube-apiserver.
func verbosity(int) map[string]any {
	return controlPlane(map[string]any{"apiserver_extra_args": map[string]string{"v": "2"}})
}

// controlPlane returns the variables with a drain timeout that suits tests.
func controlPlane(variables map[string]any) map[string]any {
	variables["drain_timeout"] = "2s"
	return variables
}

// stagesOf returns one operation for each number of a cycle, each of which is one stage of a
// rotation. A bundle begins at 0, the end of a cycle.
func stagesOf(what string, cycle int, at func(n int) map[string]any) []operation {
	var all []operation
	for n := 1; n <= cycle; n++ {
		all = append(all, operation{
			name: fmt.Sprintf("control plane %s, stage %d", what, n), machines: 3,
			variables: func(n int) map[string]any { return controlPlane(at(n)) },
		})
	}
	return all
}

// rotationAt rotates every authority and the service-account keys.
func rotationAt(n int) map[string]any {
	return map[string]any{
		"rotation": map[string]int{"kubernetes": n, "etcd": n, "front_proxy": n, "service_account": n},
	}
}

// encryptionAt introduces encryption at rest in three stages, rotates the key in three, and removes
// it in three.
func encryptionAt(n int) map[string]any {
	variables := map[string]any{"rotation": map[string]int{"encryption": n}, "encryption": nil}
	if n > 0 && (n-1)%9 < 6 {
		variables["encryption"] = map[string]any{
			"provider": "secretbox", "resources": []string{"secrets", "configmaps"}, // a new cluster has no Secrets to rewrite
		}
	}
	return variables
}

// newControlPlaneSweep returns a sweep for operations of the example. The whole control plane
// must serve after each of them.
func newControlPlaneSweep(ctx context.Context, e *Env) (*sweep, error) {
	s, err := controlPlaneSweep(e, "")
	if err != nil {
		return nil, err
	}
	return s, s.begin(ctx)
}

// controlPlaneSweep returns the same before it begins, with files in addition to the example.
func controlPlaneSweep(e *Env, added string) (*sweep, error) {
	root, err := build.Checkout()
	if err != nil {
		return nil, err
	}
	s := &sweep{env: e, config: os.DirFS(filepath.Join(root, "examples", "control-plane")), added: added}
	s.more = s.serving
	return s, nil
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
		out, err := m.Run(ctx, with(map[string]string{"address": m.Address.String(), "vip": s.work.VIP()},
			componentsScript+servingScript))
		if err != nil {
			return fmt.Errorf("%s does not serve: %w", m.Name, err)
		}
		if out != want {
			return fmt.Errorf("the balancer on %s: %q, want %q", m.Name, out, want)
		}
	}
	return nil
}

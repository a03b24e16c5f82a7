package soak

import "context"

// movedMachine is the machine whose member and replica change their runtime: its member does not lead, and the first
// one has the keys.
var movedMachine = machineNames[1]

// staticPodScenarios interrupt the change of a runtime.
func staticPodScenarios() []Scenario {
	return []Scenario{{
		Name: "interrupt static pods: units to pods, pods to units", Builds: []string{nodeBuild}, Run: cutRuntimeChange,
	}}
}

// cutRuntimeChange moves one member and one replica of a control plane of three machines to static pods, and back.
func cutRuntimeChange(ctx context.Context, e *Env) ([]Result, error) {
	s, err := controlPlaneSweep(e, "staticpods")
	if err != nil {
		return nil, err
	}
	moved := func() fleet { return fleet{e.Lab.Machine(movedMachine)} }
	s.surround = func(ctx context.Context) (map[string]any, error) { return nil, installKubelets(ctx, moved()) }
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	to := func(name, runtime string) *track {
		return e.track(operation{
			name: "static pods: " + name, machines: len(machineNames),
			variables: func(int) map[string]any {
				return controlPlane(map[string]any{"runtimes": map[string]string{movedMachine: runtime}})
			},
			check: func(ctx context.Context) error { return moved().runBy(ctx, runtime) },
		})
	}
	return s.run(ctx, to("units to pods", byStaticPod), to("pods to units", bySystemd))
}

package soak

import (
	"context"
	"maps"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
)

// cutUpgradeScenarios interrupt upgrades by a minor version. An upgrade cannot be reverted, so
// each run starts with recreated machines.
func cutUpgradeScenarios() []Scenario {
	return []Scenario{
		{Name: "interrupt etcd: upgrade", Builds: []string{minorBefore(1).Etcd}, Run: cutEtcdUpgrade},
		{Name: "interrupt control plane: upgrade", Builds: []string{minorBefore(1).Kubernetes}, Run: cutKubernetesUpgrade},
	}
}

func cutEtcdUpgrade(ctx context.Context, e *Env) ([]Result, error) {
	s, err := newEtcdSweep(ctx, e)
	if err != nil {
		return nil, err
	}
	return s.upgrades(ctx, "etcd upgrade", "etcd_version", [2]string{minorBefore(1).Etcd, newest.Etcd}, nil)
}

func cutKubernetesUpgrade(ctx context.Context, e *Env) ([]Result, error) {
	s, err := newControlPlaneSweep(ctx, e)
	if err != nil {
		return nil, err
	}
	return s.upgrades(ctx, "control plane upgrade", "kubernetes_version",
		[2]string{minorBefore(1).Kubernetes, newest.Kubernetes},
		map[string]any{"drain_timeout": "2s"})
}

// upgrades changes a variable from one release's version to another's, on machines that start
// with the older one.
func (s *sweep) upgrades(
	ctx context.Context, name, variable string, releases [2]string, extra map[string]any,
) ([]Result, error) {
	var at [2]func(int) map[string]any
	for i, release := range releases {
		version, err := build.Version(release)
		if err != nil {
			return nil, err
		}
		variables := map[string]any{variable: version}
		maps.Copy(variables, extra)
		at[i] = func(int) map[string]any { return variables }
	}
	return s.run(ctx,
		uninterrupted(operation{name: name + ", before it", machines: len(machineNames), variables: at[0]}),
		s.env.track(operation{name: name, machines: len(machineNames), variables: at[1]}),
		uninterrupted(operation{name: name + ", after it"}))
}

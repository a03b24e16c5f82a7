package soak

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// upgrade is one apply that upgrades a control plane to another release.
type upgrade struct {
	name string
	to   workspace.Release
}

// upgradePath is a control plane that is created at one release and upgraded from there.
type upgradePath struct {
	name  string
	from  workspace.Release
	steps []upgrade
}

// minorBefore returns the release that is older by a minor version of etcd, and by a number of minor
// versions of Kubernetes.
func minorBefore(kubernetes int) workspace.Release {
	return workspace.Release{Etcd: build.MinorBefore("etcd", 1), Kubernetes: build.MinorBefore("kubernetes", kubernetes)}
}

// upgradePaths are a whole minor version of both products in one apply, followed by the next
// one of Kubernetes, and an upgrade by a patch. All of them lead to the default release.
var upgradePaths = []upgradePath{
	{"upgrade", minorBefore(2), []upgrade{
		{
			"etcd and Kubernetes by a minor version",
			workspace.Release{Etcd: newest.Etcd, Kubernetes: minorBefore(1).Kubernetes},
		},
		{"Kubernetes by the next minor version", newest},
	}},
	{
		"upgrade by a patch",
		workspace.Release{Etcd: build.PatchBefore("etcd"), Kubernetes: build.PatchBefore("kubernetes")},
		[]upgrade{{"etcd and Kubernetes", newest}},
	},
}

func upgradeScenarios() []Scenario {
	var all []Scenario
	for _, j := range upgradePaths {
		all = append(all, Scenario{Name: j.name, Builds: j.builds(), Run: j.underLoad})
	}
	return all
}

// builds returns the distinct releases of the path.
func (j upgradePath) builds() []string {
	names := []string{j.from.Etcd, j.from.Kubernetes}
	for _, step := range j.steps {
		names = append(names, step.to.Etcd, step.to.Kubernetes)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// underLoad runs the upgrades, each with its own clients.
func (j upgradePath) underLoad(ctx context.Context, e *Env) ([]Result, error) {
	variables, err := j.from.Variables()
	if err != nil {
		return nil, err
	}
	s, err := newSiteWith(ctx, e, variables)
	if err != nil {
		return nil, err
	}
	var results []Result
	at := j.from
	for _, step := range j.steps {
		name := j.name + ": " + step.name
		observed, err := s.upgraded(ctx, name, at, step.to)
		results = append(results, observed...)
		if err != nil {
			return results, fmt.Errorf("%s: %w", step.name, err)
		}
		at = step.to
	}
	return results, nil
}

// upgraded upgrades from one release to another and returns the observations of the clients, of
// a load balancer, and on the machines.
func (s *site) upgraded(ctx context.Context, name string, from, to workspace.Release) ([]Result, error) {
	etcd, kubernetes, err := to.Versions()
	if err != nil {
		return nil, err
	}
	leader, err := s.three().leader(ctx)
	if err != nil {
		return nil, err
	}
	watched, criteria := s.machine(machineNames[0]), load.Unnoticed()
	if err := watchRotation(ctx, watched); err != nil {
		return nil, err
	}
	report, failure := s.during(ctx, criteria, func() error { return s.upgrade(ctx, to) })
	seen, err := rotationSeen(ctx, watched)
	if failure != nil {
		return nil, failure
	}
	if err != nil {
		return nil, err
	}
	results := append(loadResults(name, report, criteria), rotationResult(name, seen))
	observed, err := s.running(ctx)
	if err != nil {
		return results, err
	}
	results = append(results, runResult(name, etcd, kubernetes, observed))
	if from.Etcd != to.Etcd {
		results = append(results, leaderLast(name, leader, observed))
	}
	return results, s.checkConverged(ctx)
}

// upgrade changes both versions in one apply.
func (s *site) upgrade(ctx context.Context, to workspace.Release) error {
	variables, err := to.Variables()
	if err != nil {
		return err
	}
	maps.Copy(s.variables, variables)
	if err := s.write(); err != nil {
		return err
	}
	return s.apply(ctx)
}

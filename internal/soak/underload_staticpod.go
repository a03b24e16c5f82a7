package soak

import (
	"context"
	"fmt"
)

// staticPodLoadScenarios change control planes of static pods while clients work.
func staticPodLoadScenarios() []Scenario {
	return []Scenario{
		{Name: "adopted: flag change, renewal", Builds: []string{nodeBuild}, Run: adoptedUnderLoad},
		{Name: "runtime: units to pods and back", Builds: []string{nodeBuild}, Run: runtimeUnderLoad},
	}
}

// adoptedUnderLoad changes a control plane of three that kubeadm has created and the provider has imported.
func adoptedUnderLoad(ctx context.Context, e *Env) ([]Result, error) {
	machines := fleet(e.Lab.Machines()[:len(machineNames)])
	variables, err := createByKubeadm(ctx, e, machines, true)
	if err != nil {
		return nil, err
	}
	s, err := openSite(ctx, e, variables)
	if err != nil {
		return nil, err
	}
	if err := addTo(s.work.Dir, "adoption"); err != nil {
		return nil, err
	}
	if err := s.resize(ctx, len(machines)); err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	if err := s.checkConverged(ctx); err != nil {
		return nil, err
	}
	return s.unnoticed(ctx, "adopted",
		change{"a flag of the API servers", assigning("apiserver_extra_args", map[string]string{"goaway-chance": "0"})},
		change{"renewal of all certificates", renewEarly})
}

// renewEarly renews all certificates, and goes back to the usual time of a renewal.
func renewEarly(ctx context.Context, s *site) error {
	if err := s.set(ctx, "early_renewal", "8759h59m"); err != nil {
		return err
	}
	return s.set(ctx, "early_renewal", nil)
}

// runtimeUnderLoad moves a control plane of three from units to static pods, and back.
func runtimeUnderLoad(ctx context.Context, e *Env) ([]Result, error) {
	machines := fleet(e.Lab.Machines()[:len(machineNames)])
	if err := installKubelets(ctx, machines); err != nil {
		return nil, err
	}
	s, err := openSite(ctx, e, nil)
	if err != nil {
		return nil, err
	}
	if err := addTo(s.work.Dir, "staticpods"); err != nil {
		return nil, err
	}
	if err := s.resize(ctx, len(machines)); err != nil {
		return nil, err
	}
	return s.unnoticed(ctx, "runtime",
		change{"units to pods", moving(byStaticPod)},
		change{"pods to units", moving(bySystemd)})
}

func moving(runtime string) func(context.Context, *site) error {
	return func(ctx context.Context, s *site) error {
		all := map[string]string{}
		for _, m := range s.three() {
			all[m.Name] = runtime
		}
		if err := s.set(ctx, "runtimes", all); err != nil {
			return err
		}
		return s.three().runBy(ctx, runtime)
	}
}

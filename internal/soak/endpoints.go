package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// endpointMachines are those with a replica at times.
var endpointMachines = []string{"cp1", "cp2", "cp3", "cp4", "cp5"}

// endpointSite is a control plane with one kind of endpoint.
type endpointSite struct {
	*site
	kind   endpointKind
	around *surroundings
}

// endpointScenarios are the life of a control plane with each kind of endpoint, under the names "endpoints: KIND".
func endpointScenarios() []Scenario {
	var all []Scenario
	for _, k := range endpointKinds() {
		all = append(all, Scenario{Name: "endpoints: " + k.name, Run: k.life})
	}
	return all
}

// life creates a control plane, changes it while clients work, lets a machine die, and destroys it.
func (k endpointKind) life(ctx context.Context, e *Env) ([]Result, error) {
	s, err := k.newSite(ctx, e)
	if errors.Is(err, errNoKubeVIP) {
		return []Result{skippedResult(k.row("create"), err)}, nil
	}
	if err != nil {
		return nil, err
	}
	defer s.around.forget(ctx)
	bare, err := s.around.machines.fingerprints(ctx)
	if err != nil {
		return nil, err
	}
	results, err := s.create(ctx)
	if err != nil {
		return results, err
	}
	for _, c := range endpointChanges {
		more, err := s.measure(ctx, c)
		results = append(results, more...)
		if err != nil {
			return results, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	dead, err := s.loseOne(ctx)
	results = append(results, dead...)
	if err != nil {
		return results, err
	}
	gone, err := s.destroy(ctx, bare)
	return append(results, gone), err
}

// row returns the name of the result of an operation.
func (k endpointKind) row(operation string) string { return "endpoint " + k.name + ": " + operation }

// newSite starts what others run, and prepares the configuration.
func (k endpointKind) newSite(ctx context.Context, e *Env) (*endpointSite, error) {
	around, err := k.surround(ctx, e, endpointMachines)
	if err != nil {
		return nil, err
	}
	config, err := k.config(k.dir(e))
	if err != nil {
		return nil, err
	}
	w, err := workspace.Open(ctx, e.Lab, k.dir(e), "")
	if err != nil {
		return nil, err
	}
	s := &site{env: e, work: w, variables: around.variables, dial: around.dial}
	return &endpointSite{s, k, around}, w.MakeFrom(ctx, config, e.Log)
}

// resize scales to the first n machines, and waits until clients reach all of them.
func (s *endpointSite) resize(ctx context.Context, n int) error {
	if err := s.set(ctx, "machines", s.env.controlPlane(n).variable()); err != nil {
		return err
	}
	return s.kind.reached(ctx, s.around, s.around.machines[:n])
}

func (s *endpointSite) create(ctx context.Context) ([]Result, error) {
	begun := time.Now()
	if err := s.resize(ctx, 1); err != nil {
		return nil, err
	}
	err := s.checkConverged(ctx)
	r := Result{Name: s.kind.row("create")}
	r.took(begun)
	r.count(err == nil)
	return []Result{r}, err
}

// took records how long an apply took that no client waits for.
func (r *Result) took(begun time.Time) {
	seconds := int(time.Since(begun).Round(time.Second).Seconds())
	r.Detail = fmt.Sprintf("%d s", seconds)
	r.Figures = []jsonfile.Figure{{Name: "the apply", Unit: "s", Values: []int{seconds}}}
}

// endpointChange is a change that clients must not notice, as far as the kind of endpoint permits.
type endpointChange struct {
	name string
	do   func(ctx context.Context, s *endpointSite) error
}

var endpointChanges = []endpointChange{
	{"from one machine to three", scalingTo(3)},
	{"from three machines to five", scalingTo(5)},
	{"from five machines to three", scalingTo(3)},
	{"a flag of the API servers changes", changeFlag},
	{"a replica is replaced", func(ctx context.Context, s *endpointSite) error {
		return s.apply(ctx, `-replace=module.control_plane.kube_control_plane_replica.this["cp2"]`)
	}},
}

func scalingTo(n int) func(context.Context, *endpointSite) error {
	return func(ctx context.Context, s *endpointSite) error { return s.resize(ctx, n) }
}

func changeFlag(ctx context.Context, s *endpointSite) error {
	version, err := build.Version("kubernetes")
	if err != nil {
		return err
	}
	override := fmt.Sprintf("module \"control_plane\" {\n  kubernetes = { version = %q, extra_args = { apiserver = "+
		"{ v = \"3\" } } }\n}\n", version)
	if err := os.WriteFile(filepath.Join(s.work.Dir, "flag_override.tf"), []byte(override), 0o600); err != nil {
		return err
	}
	return s.apply(ctx)
}

// measure makes a change while clients work.
func (s *endpointSite) measure(ctx context.Context, c endpointChange) ([]Result, error) {
	criteria := load.Unnoticed().Excusing(s.kind.excuse...)
	report, err := s.during(ctx, criteria, func() error { return c.do(ctx, s) })
	if err == nil {
		err = s.checkConverged(ctx)
	}
	return uncompleted(loadResults(s.kind.row(c.name), report, criteria), err), err
}

// destroy destroys everything, and looks for what is left.
func (s *endpointSite) destroy(ctx context.Context, bare map[string][]string) (Result, error) {
	r := Result{Name: s.kind.row("destroy")}
	begun := time.Now()
	err := s.apply(ctx, "-destroy")
	r.took(begun)
	if err == nil {
		err = s.around.machines.clean(ctx, 0, bare)
	}
	if err == nil && s.kind.vacated != nil {
		err = s.kind.vacated(ctx, s.around)
	}
	r.count(err == nil)
	return r, err
}

package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// twoTime limits two concurrent applies and the applies that follow.
const twoTime = 8 * time.Minute

// division is how two states describe one cluster.
type division struct {
	name string
	// owns returns the machines whose member, and whose replica, the first and the second unit
	// manage.
	owns func(machines []string) (members, replicas [2][]string)
	copy bool // the second unit begins each operation with a copy of the first one's state
}

var divisions = []division{
	{name: "two processes: each owns some machines", owns: func(all []string) (members, replicas [2][]string) {
		for i, name := range all {
			at := min(i%3, 1) // cp1 and cp4 belong to the first unit
			members[at], replicas[at] = append(members[at], name), append(replicas[at], name)
		}
		return members, replicas
	}},
	{
		name: "two processes: one owns the members, one the replicas",
		owns: func(all []string) (members, replicas [2][]string) {
			members[0], replicas[1] = all, all
			return members, replicas
		},
	},
	{name: "two processes: copies of one state", copy: true, owns: func(all []string) (members, replicas [2][]string) {
		return [2][]string{all, all}, [2][]string{all, all}
	}},
}

func twoProcessScenarios() []Scenario {
	var all []Scenario
	for _, d := range divisions {
		for _, g := range jointGroups {
			name := d.name + ": " + g.name
			all = append(all, Scenario{Name: name, Builds: g.builds, Run: func(ctx context.Context, e *Env) ([]Result, error) {
				return d.run(ctx, e, name, g)
			}})
		}
	}
	return all
}

// pair is two units that describe one cluster, and what they share.
type pair struct {
	name     string
	division division
	site     *site // the base: it manages the endpoint and the kubeconfig
	base     *unit
	units    [2]*unit
	machines int
	cluster  uint64
	begun    time.Time // before any member was started
}

// run creates a cluster of three, with both units concurrently, and runs the operations of the
// group.
func (d division) run(ctx context.Context, e *Env, name string, g jointGroup) ([]Result, error) {
	if err := e.Lab.Add(ctx, "cp4", "cp5"); err != nil {
		return nil, err
	}
	p, err := d.newPair(ctx, e, g.from)
	if err != nil {
		return nil, err
	}
	p.name = name
	var results []Result
	for _, o := range append([]jointOperation{{name: "create", every: true}}, g.operations...) {
		limited, cancel := context.WithTimeoutCause(ctx, twoTime, fmt.Errorf("it did not end within %s", twoTime))
		result, err := p.operate(limited, o)
		cancel()
		results = append(results, result)
		fmt.Fprintf(e.Log, "%s", Table(results[len(results)-1:]))
		if err != nil {
			return results, fmt.Errorf("%s: %w\n%s", o.name, err, fleet(e.Lab.Machines()).state(ctx))
		}
	}
	return results, nil
}

func (d division) newPair(ctx context.Context, e *Env, from workspace.Release) (*pair, error) {
	p := &pair{division: d, begun: time.Now()}
	var err error
	if p.base, err = newUnit(ctx, e, "base", "base", ""); err != nil {
		return nil, err
	}
	p.site = &site{env: e, work: p.base.work}
	balancers := p.base.work.Machines(len(machineNames))
	p.base.variables["balancers"] = balancers
	if err := p.base.write(); err != nil {
		return nil, err
	}
	if _, err := p.base.work.Apply(ctx, e.Log); err != nil {
		return nil, err
	}
	variables, err := from.Variables()
	if err != nil {
		return nil, err
	}
	for i, name := range []string{"first", "second"} {
		if p.units[i], err = newUnit(ctx, e, name, "unit", ""); err != nil {
			return nil, err
		}
		if err := p.units[i].share(ctx, p.base); err != nil {
			return nil, err
		}
	}
	p.assign(variables)
	return p, p.resize(len(machineNames))
}

// assign gives both units the same values of variables.
func (p *pair) assign(variables map[string]any) {
	for _, u := range p.units {
		for name, value := range variables {
			u.variables[name] = value
		}
	}
}

// resize divides the first n machines between the units.
func (p *pair) resize(n int) error {
	p.machines = n
	machines := p.all()[:n]
	addresses := machines.variable()
	var names []string
	for _, m := range machines {
		names = append(names, m.Name)
	}
	members, replicas := p.division.owns(names)
	for i, u := range p.units {
		u.variables["peers"] = addresses
		u.variables["members"], u.variables["replicas"] = placed(members[i], addresses), placed(replicas[i], addresses)
		if err := u.write(); err != nil {
			return err
		}
	}
	return nil
}

// placed returns the members or replicas of these machines, with their names as keys.
func placed(names []string, addresses map[string]string) layout {
	l := layout{}
	for _, name := range names {
		l[name] = memberSpec{name, addresses[name]}
	}
	return l
}

func (p *pair) all() fleet { return p.site.env.controlPlane(5) }

// outcomes contains how each of the two applies ended.
type outcomes [2]struct {
	how     applyOutcome
	message string
	changed int // resources
	took    time.Duration
}

// applyBoth applies both units concurrently.
func (p *pair) applyBoth(ctx context.Context, args [2][]string) (outcomes, error) {
	var out outcomes
	if p.division.copy {
		if err := p.copyState(); err != nil {
			return out, err
		}
	}
	var group errgroup.Group
	for i, u := range p.units {
		if err := u.write(); err != nil {
			return out, err
		}
		group.Go(func() error {
			begun := time.Now()
			done, err := u.work.Apply(ctx, io.Discard, args[i]...)
			out[i].how, out[i].changed, out[i].took = outcomeOf(done, err), len(done), time.Since(begun)
			if err != nil {
				out[i].message = errorsOf(err)
			}
			return nil
		})
	}
	err := group.Wait()
	return out, errors.Join(err, context.Cause(ctx))
}

// copyState copies the first unit's state to the second one.
func (p *pair) copyState() error {
	text, err := os.ReadFile(filepath.Join(p.units[0].work.Dir, "terraform.tfstate"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("copy the state: %w", err)
	}
	return os.WriteFile(filepath.Join(p.units[1].work.Dir, "terraform.tfstate"), text, 0o600)
}

// applyAgain applies one unit after the other, and reports how many resources of each that changes, and whose plan is
// not empty then.
func (p *pair) applyAgain(ctx context.Context) (changed [2]int, err error) {
	for i, u := range p.units {
		done, err := u.work.Apply(ctx, p.site.env.Log)
		changed[i] = len(done)
		if err != nil {
			return changed, fmt.Errorf("the %s unit's apply after it: %s", u.name, errorsOf(err))
		}
	}
	for _, u := range p.units {
		text, changes, err := u.work.Plan(ctx)
		if err != nil {
			return changed, err
		}
		if changes {
			return changed, fmt.Errorf("the %s unit's plan is not empty:\n%s", u.name, text)
		}
	}
	return changed, nil
}

// during runs act with clients on the cluster, if there is one.
func (p *pair) during(ctx context.Context, act func() error) (load.Report, error) {
	if p.cluster == 0 {
		return load.Report{}, act()
	}
	return p.site.during(ctx, load.Unnoticed(), act)
}

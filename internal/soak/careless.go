package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/soak/cut"
)

// carelessTime limits one apply, including the checks after it.
const carelessTime = 6 * time.Minute

// carelessScenarios edit members alone, and members with replicas on the same machines.
func carelessScenarios() []Scenario {
	var all []Scenario
	for name, replicas := range map[string]bool{
		"careless edits of members":         false,
		"careless edits of a control plane": true,
	} {
		all = append(all, Scenario{Name: name, Run: func(ctx context.Context, e *Env) ([]Result, error) {
			c := &careless{env: e, replicas: replicas, tally: newTally(name), longest: 20, steps: e.Steps}
			if replicas {
				c.steps = max(e.Steps/4, 1) // an apply takes that much longer
			}
			return c.run(ctx)
		}})
	}
	slices.SortFunc(all, func(a, b Scenario) int { return strings.Compare(b.Name, a.Name) })
	return all
}

// careless is a cluster whose configuration is edited at random, with a client that writes
// continuously. Its deletion protection is on: no edit may destroy it.
type careless struct {
	env           *Env
	replicas      bool // there are API servers
	steps         int
	base          *unit
	unit          *unit
	editGenerator *editGenerator
	load          *load.Load
	now           layout // last applied
	cluster       uint64 // etcd's ID
	saved         int    // number of copies of the state
	longest       int    // commands of the longest apply
	tally         *tally
}

// run makes random edits, one after the other, and interrupts many of the applies. After each
// one it must still be the same cluster, with every write.
func (c *careless) run(ctx context.Context) ([]Result, error) {
	if err := c.env.Lab.Add(ctx, "cp4", "cp5", "cp6"); err != nil {
		return nil, err
	}
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	for c.tally.steps < c.steps {
		limited, cancel := context.WithTimeoutCause(ctx, carelessTime, fmt.Errorf("it did not end within %s", carelessTime))
		err := c.step(limited, func() bool { return ctx.Err() != nil })
		cancel()
		if ctx.Err() != nil {
			break
		}
		if err == nil {
			continue
		}
		c.end(ctx)
		if c.tally.notMade >= maxFailures {
			return c.tally.results(), fmt.Errorf("%d edits could not be made, the last one: %w", maxFailures, err)
		}
		if err := rebuild(ctx, c.env.Lab); err != nil {
			return c.tally.results(), err
		}
		if err := c.begin(ctx); err != nil {
			return c.tally.results(), err
		}
	}
	c.end(ctx)
	return c.tally.results(), context.Cause(ctx)
}

// begin creates a cluster of three, and starts the writer.
func (c *careless) begin(ctx context.Context) error {
	if err := os.RemoveAll(c.env.Dir); err != nil {
		return fmt.Errorf("start over: %w", err)
	}
	c.now, c.cluster, c.saved = layout{}, 0, 0
	c.editGenerator = &editGenerator{random: c.env.Random}
	for i, m := range c.machines() {
		c.editGenerator.pool = append(c.editGenerator.pool, m.Address.String())
		if i < len(machineNames) {
			c.now[m.Name] = memberSpec{m.Name, m.Address.String()}
		}
	}
	var err error
	if c.base, err = newUnit(ctx, c.env, "base", "base", ""); err != nil {
		return err
	}
	if c.replicas {
		c.base.variables["balancers"] = c.base.work.Machines(len(machineNames))
	}
	if err := c.base.write(); err != nil {
		return err
	}
	if _, err := c.base.work.Apply(ctx, c.env.Log); err != nil {
		return err
	}
	if c.unit, err = newUnit(ctx, c.env, "unit", "unit", "internal/soak/provider"); err != nil {
		return err
	}
	if err := c.unit.share(ctx, c.base); err != nil {
		return err
	}
	if err := c.apply(ctx, c.now); err != nil {
		return err
	}
	if c.cluster, err = c.machines().waitForCluster(ctx, 0); err != nil {
		return err
	}
	return c.write(ctx)
}

func (c *careless) machines() fleet { return c.env.controlPlane(6) }

// write starts clients of the API, if there is one, and a writer for etcd.
func (c *careless) write(ctx context.Context) error {
	s := &site{env: c.env, work: c.base.work}
	if c.replicas {
		var err error
		c.load, err = s.load(ctx, load.Unnoticed())
		return err
	}
	credentials, err := etcdCredentials(ctx, c.machines()[0])
	if err != nil {
		return err
	}
	c.load, err = load.Start(ctx, load.Config{
		Etcd: &load.Etcd{Endpoints: s.members, TLS: credentials}, Criteria: load.Unnoticed(),
	})
	return err
}

// end stops the writer.
func (c *careless) end(ctx context.Context) {
	ctx = context.WithoutCancel(ctx) // writes are read back even if the run is cancelled
	report, err := c.load.Stop(ctx)
	fmt.Fprintf(c.env.Log, "%v\n%v\n", report, err)
	c.tally.recordWrites(report, err)
}

// describe writes the configuration of a layout. moved maps old keys to new ones.
func (c *careless) describe(l layout, moved map[string]string) error {
	c.unit.variables["members"], c.unit.variables["peers"] = l, l.peers()
	if c.replicas {
		c.unit.variables["replicas"] = l
	}
	if err := c.unit.write(); err != nil {
		return err
	}
	text := ""
	for from, to := range moved {
		for _, kind := range c.kinds() {
			text += fmt.Sprintf("moved {\n  from = %s[%q]\n  to   = %s[%q]\n}\n", kind, from, kind, to)
		}
	}
	return os.WriteFile(filepath.Join(c.unit.work.Dir, "moved.tf"), []byte(text), 0o600)
}

// kinds returns the resource types with each key.
func (c *careless) kinds() []string {
	if c.replicas {
		return []string{"kube_etcd_member.this", "kube_control_plane_replica.this"}
	}
	return []string{"kube_etcd_member.this"}
}

// at returns the resources with a key.
func (c *careless) at(key string) []string {
	var all []string
	for _, kind := range c.kinds() {
		all = append(all, fmt.Sprintf("%s[%q]", kind, key))
	}
	return all
}

// apply applies a layout without an interruption, and saves a copy of the state.
func (c *careless) apply(ctx context.Context, l layout) error {
	if err := c.describe(l, nil); err != nil {
		return err
	}
	done, err := c.unit.work.Apply(ctx, c.env.Log)
	if err != nil {
		return fmt.Errorf("%s: %w", outcomeOf(done, err), err)
	}
	c.now = l
	return c.save()
}

// step makes one edit, and checks that the cluster survives it and that another apply
// converges. It returns an error if the run cannot continue. A step during which the whole run
// is cancelled does not count. One whose edit cannot be made counts as not recovered from.
func (c *careless) step(ctx context.Context, off func() bool) error {
	d := c.editGenerator.next(c.now)
	begun := time.Now()
	how, log, failure, err := c.edit(ctx, &d)
	if off() {
		return err
	}
	c.tally.steps++
	if err != nil {
		what := fmt.Sprintf("step %d, %s: it could not be made", c.tally.steps, d.edit)
		c.tally.recordNotMade(what, err)
		fmt.Fprintf(c.env.Log, "%s: %s: %v\n", what, verdict(err), err)
		return err
	}
	c.tally.count(d.edit, how)
	what := fmt.Sprintf("step %d, %s: %s%s", c.tally.steps, d.edit, how, progressOf(log))
	if how == failing || how == stopped {
		what += ": " + errorsOf(failure)
	}
	living := c.checkClusterIntact(ctx)
	if off() {
		return living
	}
	c.tally.recordCluster(what, living)
	if living == nil {
		err = c.recover(ctx, d, how)
		living = c.checkClusterIntact(ctx)
		if off() {
			return living
		}
		c.tally.recordRecovery(what, err)
		if living != nil {
			c.tally.recordCluster(what+", and what followed", living)
		}
	}
	fmt.Fprintf(c.env.Log, "%s: %s %.1f s\n", what, verdict(errors.Join(living, err)), time.Since(begun).Seconds())
	if err = errors.Join(living, err); err != nil {
		fmt.Fprintf(c.env.Log, "%v\n%s\n", err, c.machines().state(ctx))
	}
	return err
}

// progressOf describes how far an apply got.
func progressOf(log cut.Log) string {
	if !log.Cut {
		return fmt.Sprintf(", %d commands", log.Commands)
	}
	return fmt.Sprintf(" at command %d (%s)", log.Commands, log.At)
}

// checkClusterIntact returns what is lost, or nil.
func (c *careless) checkClusterIntact(ctx context.Context) error {
	if _, err := c.machines().waitForCluster(ctx, c.cluster); err != nil {
		return err
	}
	lost, err := c.load.Lost(ctx)
	if err == nil && len(lost) > 0 {
		err = fmt.Errorf("%d acknowledged writes are lost, the first is %s", len(lost), lost[0])
	}
	return err
}

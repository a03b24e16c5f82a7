package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/soak/cut"
)

// edit makes the edit and applies it, with -parallelism=1 or 10, and usually with a provider
// that is killed at some command, if it gets that far.
func (c *careless) edit(ctx context.Context, d *layoutEdit) (how applyOutcome, log cut.Log, failure, err error) {
	if err := c.describe(d.layout, d.moved); err != nil {
		return failing, log, nil, err
	}
	if err := c.editState(ctx, d); err != nil {
		return failing, log, nil, err
	}
	args := c.arguments(d)
	path := filepath.Join(c.env.Dir, "commands.log")
	if err := os.RemoveAll(path); err != nil {
		return failing, log, nil, err
	}
	w := *c.unit.work
	w.Env = c.point().Environment(path)
	done, failure := w.Apply(ctx, io.Discard, args...)
	if log, err = cut.ReadLog(path); err != nil {
		return failing, log, nil, err
	}
	if log.Cut {
		return cutOff, log, failure, nil
	}
	c.longest = max(c.longest, log.Commands)
	return outcomeOf(done, failure), log, failure, nil
}

// arguments returns the arguments of the apply.
func (c *careless) arguments(d *layoutEdit) []string {
	args := []string{fmt.Sprintf("-parallelism=%d", []int{1, 10}[c.env.Random.IntN(2)])}
	d.edit += ", " + args[0]
	if c.env.Random.IntN(4) == 0 {
		args = append(args, "-refresh=false")
	}
	if d.destroys() {
		args = append(args, "-destroy")
	}
	for option, keys := range map[string][]string{"-replace=": d.replaced, "-target=": d.destroy} {
		for _, key := range keys {
			for _, address := range c.at(key) {
				args = append(args, option+address)
			}
		}
	}
	return args
}

func (d *layoutEdit) destroys() bool { return d.all || len(d.destroy) > 0 }

// point returns where the provider is killed, and no point for a third of the applies. Most of
// them are much shorter than the longest one, so early commands are more likely.
func (c *careless) point() cut.Point {
	if c.env.Random.IntN(3) == 0 {
		return cut.Point{}
	}
	side := []cut.Side{cut.Before, cut.After}[c.env.Random.IntN(2)]
	return cut.Point{Side: side, Command: 1 + c.env.Random.IntN(1+c.env.Random.IntN(c.longest))}
}

func (c *careless) statePath() string { return filepath.Join(c.unit.work.Dir, "terraform.tfstate") }

// editState makes the edit's change to the state.
func (c *careless) editState(ctx context.Context, d *layoutEdit) error {
	for _, key := range d.tainted {
		for _, address := range c.at(key) {
			if _, err := c.unit.work.Run(ctx, "taint", address); err != nil {
				return err
			}
		}
	}
	switch d.state {
	case forgetOne:
		_, err := c.unit.work.Run(ctx,
			append([]string{"state", "rm"}, c.at(c.editGenerator.some(d.layout, justOne)[0])...)...)
		return err
	case forgetAll:
		return os.Remove(c.statePath())
	case importAll:
		if err := os.Remove(c.statePath()); err != nil {
			return err
		}
		for _, key := range d.layout.keys() {
			for _, address := range c.at(key) {
				if _, err := c.unit.work.Run(ctx, "import", address, d.layout[key].Address); err != nil {
					return err
				}
			}
		}
	case olderBackup:
		return c.restore(c.env.Random.IntN(c.saved))
	}
	return nil
}

// save saves a copy of the state, like a backup.
func (c *careless) save() error {
	text, err := os.ReadFile(c.statePath())
	if err != nil {
		return fmt.Errorf("save the state: %w", err)
	}
	c.saved++
	return os.WriteFile(c.backup(c.saved-1), text, 0o600)
}

func (c *careless) restore(n int) error {
	text, err := os.ReadFile(c.backup(n))
	if err != nil {
		return fmt.Errorf("restore a state: %w", err)
	}
	return os.WriteFile(c.statePath(), text, 0o600)
}

func (c *careless) backup(n int) string {
	return filepath.Join(c.env.Dir, fmt.Sprintf("state-%03d", n))
}

// recover applies until the plan is empty: the same configuration if the apply was interrupted,
// otherwise the previous one.
func (c *careless) recover(ctx context.Context, d layoutEdit, how applyOutcome) error {
	switch {
	case how == applied && d.all:
		return errors.New("everything was destroyed although the cluster is protected")
	case how == applied && !d.destroys():
		c.now = d.layout
		return errors.Join(c.save(), c.checkConverged(ctx))
	}
	var tried []string
	if how != refused {
		err := c.apply(ctx, d.layout)
		if err == nil {
			return c.checkConverged(ctx)
		}
		tried = append(tried, "the same again: "+errorsOf(err))
	}
	if err := c.untaint(ctx); err != nil {
		return err
	}
	if d.state == olderBackup {
		if err := c.restore(c.saved - 1); err != nil {
			return err
		}
	}
	err := c.apply(ctx, c.now)
	if err == nil {
		return c.checkConverged(ctx)
	}
	tried = append(tried, "back to what was there: "+errorsOf(err))
	return errors.New("no way on: " + strings.Join(tried, "; "))
}

// untaint removes taints, including those of a failed Create.
func (c *careless) untaint(ctx context.Context) error {
	resources, err := c.unit.work.State(ctx)
	if err != nil {
		return err
	}
	for _, r := range resources {
		if !r.Tainted {
			continue
		}
		if _, err := c.unit.work.Run(ctx, "untaint", r.Address); err != nil {
			return err
		}
	}
	return nil
}

// checkConverged returns why the last apply has not converged, or nil.
func (c *careless) checkConverged(ctx context.Context) error {
	text, changes, err := c.unit.work.Plan(ctx)
	if err == nil && changes {
		err = fmt.Errorf("the plan is not empty:\n%s", text)
	}
	return err
}

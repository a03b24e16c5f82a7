package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/load"

	"github.com/kubequorum/terraform-provider-kube/internal/soak/cut"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// pointTime limits one run, including the checks after it.
const pointTime = 10 * time.Minute

// sweep interrupts operations, one run after the other, and checks that the next apply
// converges.
type sweep struct {
	env            *Env
	config         fs.FS                              // the *.tf files
	more           func(context.Context, fleet) error // checks in addition to etcd's; may be nil
	work           *workspace.Workspace
	bare           map[string][]string // fingerprints of the unused machines
	size           int                 // machines with a member now
	membersChanged time.Time           // when members were last changed
	keys           int                 // written into the current cluster
}

// newSweep creates the workspace for bare machines.
func newSweep(ctx context.Context, e *Env, config fs.FS) (*sweep, error) {
	s := &sweep{env: e, config: config}
	return s, s.begin(ctx)
}

// begin records the bare machines, and starts without a state.
func (s *sweep) begin(ctx context.Context) error {
	s.size, s.keys = 0, 0
	bare, err := s.all().fingerprints(ctx)
	if err != nil {
		return err
	}
	s.bare = bare
	if err := os.RemoveAll(s.env.Dir); err != nil {
		return fmt.Errorf("start again: %w", err)
	}
	if s.work, err = workspace.Open(ctx, s.env.Lab, s.env.Dir, ""); err != nil {
		return err
	}
	s.work.Program = "internal/soak/provider"
	return s.work.MakeFrom(ctx, s.config, io.Discard)
}

// machines returns the first n machines of the lab.
func (s *sweep) machines(n int) fleet { return s.env.Lab.Machines()[:n] }
func (s *sweep) all() fleet           { return s.machines(len(machineNames)) }

// run runs the tracks in turn until every point of every track was tried. The first one begins
// where the last one ends, so the other tracks lead back to its start. A track without
// remaining points runs undisturbed.
func (s *sweep) run(ctx context.Context, tracks ...*track) ([]Result, error) {
	err := s.round(ctx, tracks)
	var results []Result
	for _, t := range tracks {
		if t.runs > 0 {
			results = append(results, t.result())
		}
	}
	return results, err
}

func (s *sweep) round(ctx context.Context, tracks []*track) error {
	if err := s.reachEnd(ctx, tracks[len(tracks)-1]); err != nil {
		return err
	}
	for left := true; left; {
		left = false
		for _, t := range tracks {
			if err := s.runOnce(ctx, t); err != nil {
				return err
			}
			left = left || !t.done()
		}
	}
	return nil
}

// runOnce is one run of one track.
func (s *sweep) runOnce(ctx context.Context, t *track) error {
	if t.done() {
		return s.reachEnd(ctx, t)
	}
	p := t.next()
	begun := time.Now()
	limited, cancel := context.WithTimeoutCause(ctx, pointTime, fmt.Errorf("it did not end within %s", pointTime))
	log, err := s.interrupt(limited, t, p)
	cancel()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	took := time.Since(begun)
	t.note(p, log, err, took)
	fmt.Fprintf(s.env.Log, "%-28s %s: %s %.1f s\n", t.name, where(p, log), verdict(err), took.Seconds())
	if err == nil {
		return nil
	}
	fmt.Fprintf(s.env.Log, "%v\n%s\n", err, s.all().state(ctx))
	if err := rebuild(ctx, s.env.Lab); err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	return s.reachEnd(ctx, t)
}

func verdict(err error) string {
	if err != nil {
		return "FAILED"
	}
	return "ok"
}

// reachEnd brings everything to the end of the operation, undisturbed.
func (s *sweep) reachEnd(ctx context.Context, t *track) error {
	if s.size == 0 && t.machines == 0 {
		return nil
	}
	if err := s.describe(t, t.runs); err != nil {
		return err
	}
	if err := s.apply(ctx, t.repeatedArguments()...); err != nil {
		return fmt.Errorf("reach the end of %s: %w", t.name, err)
	}
	s.resize(t.machines)
	return nil
}

// describe writes the variables of an operation for that run number. A destroy keeps the
// current ones.
func (s *sweep) describe(t *track, runs int) error {
	if t.machines == 0 {
		return nil
	}
	variables := map[string]any{"machines": s.work.Machines(t.machines)}
	if t.variables != nil {
		maps.Copy(variables, t.variables(runs))
	}
	return s.work.WriteJSON("terraform.tfvars.json", variables)
}

func (s *sweep) resize(n int) {
	if s.size = n; n == 0 {
		s.keys = 0
	}
}

func (s *sweep) apply(ctx context.Context, args ...string) error {
	_, err := s.work.Apply(ctx, io.Discard, args...)
	s.membersChanged = time.Now()
	return err
}

// healthInterval is how long a member must have been connected to all others after a change:
// before that, etcd refuses to remove a member (etcdserver.HealthInterval).
const healthInterval = 5 * time.Second

// waitHealthInterval waits until a member may leave immediately. Otherwise the provider would
// retry, each time with some commands, and the numbers of the following commands would vary
// between runs.
func (s *sweep) waitHealthInterval(ctx context.Context) error {
	return load.Sleep(ctx, time.Until(s.membersChanged.Add(healthInterval)))
}

// interrupt runs an operation up to the point, applies again if it was interrupted, and checks
// the result.
func (s *sweep) interrupt(ctx context.Context, t *track, p cut.Point) (cut.Log, error) {
	if err := s.put(ctx); err != nil {
		return cut.Log{}, fmt.Errorf("write a key: %w", err)
	}
	log, err := s.operate(ctx, t, p)
	if err != nil {
		return log, err
	}
	if log.Cut {
		if err := s.apply(ctx, t.repeatedArguments()...); err != nil {
			return log, fmt.Errorf("the apply after it: %w", err)
		}
	}
	s.resize(t.machines)
	return log, s.converged(ctx, t.operation)
}

// operate runs the operation itself, with fault injection in the provider.
func (s *sweep) operate(ctx context.Context, t *track, p cut.Point) (cut.Log, error) {
	if err := s.describe(t, t.runs+1); err != nil {
		return cut.Log{}, err
	}
	if t.afterHealthInterval {
		if err := s.waitHealthInterval(ctx); err != nil {
			return cut.Log{}, err
		}
	}
	args := t.repeatedArguments()
	if t.once != nil {
		once, err := t.once(ctx)
		if err != nil {
			return cut.Log{}, err
		}
		args = append(args, once...)
	}
	path := filepath.Join(s.env.Dir, "commands.log")
	if err := os.RemoveAll(path); err != nil {
		return cut.Log{}, err
	}
	w := *s.work
	w.Env = p.Environment(path)
	_, failure := w.Apply(ctx, io.Discard, args...)
	s.membersChanged = time.Now()
	log, err := cut.ReadLog(path)
	switch {
	case err != nil:
		return log, err
	case log.Cut && failure == nil:
		return log, errors.New("the apply succeeded although its provider was killed")
	case !log.Cut && failure != nil:
		return log, fmt.Errorf("it failed although nothing was cut: %w", failure)
	case log.Commands == 0:
		return log, errors.New("it sent no command to any machine: nothing was tried")
	}
	return log, nil
}

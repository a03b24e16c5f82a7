package soak

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// pointTime limits one run, including the checks after it.
const pointTime = 10 * time.Minute

// sweep interrupts operations, one run after the other, and checks that the next apply
// converges.
type sweep struct {
	env     *Env
	config  fs.FS                              // the *.tf files
	added   string                             // name of addedFiles; "": none
	more    func(context.Context, fleet) error // checks in addition to etcd's; may be nil
	vacated func(context.Context) error        // checks after a destroy; may be nil
	// stable waits, before the plan, for what follows an apply by itself on the machines in use; may be nil.
	stable func(context.Context, fleet) error
	// surround starts what others run beside the control plane, and returns variables for it; may be nil.
	surround       func(context.Context) (map[string]any, error)
	variables      map[string]any // of surround
	work           *workspace.Workspace
	order          []string            // of the machines, those of the members first; nil: as they are named
	bare           map[string][]string // fingerprints of the unused machines
	identity       string              // opens the private keys in the state
	sshKey         string              // of the machines
	operations     int                 // since the machines were bare
	size           int                 // machines with a member now
	membersChanged time.Time           // when members were last changed
	keys           int                 // written into the current cluster
}

// newSweep creates the workspace for bare machines.
func newSweep(ctx context.Context, e *Env, config fs.FS) (*sweep, error) {
	s := &sweep{env: e, config: config}
	return s, s.begin(ctx)
}

// variablesFile comes after the file of the lab, which has an endpoint_address too.
const variablesFile = "site.auto.tfvars.json"

// overrideFile is for the override of an operation.
const overrideFile = "operation_override.tf"

// begin records the bare machines, and starts without a state.
func (s *sweep) begin(ctx context.Context) error {
	s.size, s.keys, s.operations = 0, 0, 0
	if s.surround != nil {
		var err error
		if s.variables, err = s.surround(ctx); err != nil {
			return err
		}
	}
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
	if err := s.work.MakeFrom(ctx, s.config, io.Discard); err != nil {
		return err
	}
	if err := s.env.record.sameCommit(ctx); err != nil { // of which the provider was built
		return err
	}
	if s.added != "" {
		if err := addTo(s.env.Dir, s.added); err != nil {
			return err
		}
	}
	return s.seal()
}

// all returns the machines, those of the members first.
func (s *sweep) all() (all fleet) {
	order := s.order
	if order == nil {
		order = machineNames
	}
	for _, name := range order {
		all = append(all, s.env.Lab.Machine(name))
	}
	return all
}

// machines returns the machines of the first n members.
func (s *sweep) machines(n int) fleet { return s.all()[:n] }

// run runs the tracks in turn until every point of every track was tried. The first one begins
// where the last one ends, so the other tracks lead back to its start. A track without
// remaining points runs undisturbed.
func (s *sweep) run(ctx context.Context, tracks ...*track) ([]Result, error) {
	err := s.reachEnd(ctx, tracks[len(tracks)-1])
	for left := true; left && err == nil; {
		left, err = s.round(ctx, tracks)
	}
	var results []Result
	for _, t := range tracks {
		if t.runs > 0 {
			results = append(results, t.result())
		}
	}
	return results, err
}

// round runs each track once. After a failure it ends early, with new machines at the start of the
// first track.
func (s *sweep) round(ctx context.Context, tracks []*track) (left bool, err error) {
	for _, t := range tracks {
		passed, err := s.runOnce(ctx, t)
		if err != nil {
			return false, err
		}
		if !passed {
			return true, s.renew(ctx, tracks[len(tracks)-1])
		}
		left = left || !t.done()
	}
	return left, nil
}

// renew starts again on bare machines.
func (s *sweep) renew(ctx context.Context, last *track) error {
	if err := rebuild(ctx, s.env.Lab); err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	return s.reachEnd(ctx, last)
}

// runOnce is one run of one track. It reports whether everything was right.
func (s *sweep) runOnce(ctx context.Context, t *track) (passed bool, err error) {
	s.operations++
	if t.done() {
		return true, s.reachEnd(ctx, t)
	}
	p := t.next()
	begun := time.Now()
	limited, cancel := context.WithTimeoutCause(ctx, pointTime, fmt.Errorf("it did not end within %s", pointTime))
	log, failure := s.interrupt(limited, t, p)
	cancel()
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	took := time.Since(begun)
	t.note(p, log, failure, took)
	fmt.Fprintf(s.env.Log, "%-28s %s: %s %.1f s, %d of %d points left\n", t.name, where(p, log), verdict(failure),
		took.Seconds(), t.remaining(), len(t.points))
	if failure != nil {
		fmt.Fprintf(s.env.Log, "%v\n%s\n", failure, s.all().state(ctx))
	}
	return failure == nil, s.env.record.save(t.name, t.cursor)
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
	if err := s.describe(t); err != nil {
		return err
	}
	if err := s.apply(ctx, t.repeatedArguments()...); err != nil {
		return fmt.Errorf("reach the end of %s: %w", t.name, err)
	}
	s.resize(t.machines)
	return nil
}

// describe writes the variables of an operation. A destroy keeps the current ones.
func (s *sweep) describe(t *track) error {
	if t.machines == 0 {
		return nil
	}
	if t.on != nil {
		s.order = t.on
	}
	variables := maps.Clone(s.variables)
	if variables == nil {
		variables = map[string]any{}
	}
	variables["machines"] = addresses(s.machines(t.machines))
	if t.variables != nil {
		maps.Copy(variables, t.variables(s.operations))
	}
	if err := os.WriteFile(filepath.Join(s.env.Dir, overrideFile), []byte(t.override), 0o600); err != nil {
		return fmt.Errorf("describe %s: %w", t.name, err)
	}
	return s.work.WriteJSON(variablesFile, variables)
}

// addresses returns the addresses of the members' machines, by member.
func addresses(machines fleet) map[string]string {
	all := map[string]string{}
	for i, m := range machines {
		all[machineNames[i]] = m.Address.String()
	}
	return all
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

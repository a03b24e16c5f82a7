package soak

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

func accidentScenarios() []Scenario {
	return []Scenario{
		{Name: "partition", Run: partition},
		{Name: "lost connection", Run: lostConnections},
		{Name: "power cut", Run: powerCuts},
	}
}

// partition isolates one of three machines: a change is refused with nothing changed, and
// succeeds when the network is back.
func partition(ctx context.Context, e *Env) ([]Result, error) {
	s, err := newSite(ctx, e)
	if err != nil {
		return nil, err
	}
	refused := Result{Name: "partition: a change is refused and nothing touched"}
	healed := Result{Name: "partition: healed, it applies"}
	for n, variable := range []string{"apiserver_extra_args", "etcd_extra_args"} {
		flag := map[string]map[string]string{
			"apiserver_extra_args": {"v": "3"},
			"etcd_extra_args":      {"max-txn-ops": "129"},
		}[variable]
		away := e.Lab.Machines()[2-n]
		ok, detail, err := s.refuses(ctx, away, variable, flag)
		if err != nil {
			return []Result{refused, healed}, err
		}
		refused.count(ok)
		refused.Detail += variable + ": " + detail + ". "
		err = s.apply(ctx)
		if err == nil {
			err = s.checkConverged(ctx)
		}
		healed.count(err == nil)
		if err != nil {
			return []Result{refused, healed}, err
		}
	}
	return []Result{refused, healed}, nil
}

// refuses applies a change while a machine is isolated.
func (s *site) refuses(
	ctx context.Context, away *lab.Machine, variable string, value any,
) (ok bool, detail string, err error) {
	var others fleet
	for _, m := range s.three() {
		if m.Name != away.Name {
			others = append(others, m)
		}
	}
	before, err := s.starts(ctx, others)
	if err != nil {
		return false, "", err
	}
	if err := s.assign(variable, value); err != nil {
		return false, "", err
	}
	if err := away.Cut(ctx); err != nil {
		return false, "", err
	}
	begun := time.Now()
	failure := s.applyQuietly(ctx)
	took := time.Since(begun)
	after, observeErr := s.starts(ctx, others)
	if err := away.Heal(ctx); err != nil {
		return false, "", err
	}
	if observeErr != nil {
		return false, "", observeErr
	}
	fmt.Fprintf(s.env.Log, "while %s is cut off, after %.0f s: %v\n", away.Name, took.Seconds(), failure)
	if err := eventually(ctx, time.Minute, 300*time.Millisecond, s.healthy); err != nil {
		return false, "", err
	}
	return failure != nil && before == after, fmt.Sprintf("refused: %v, touched: %v, after %.0f s", failure != nil,
		before != after, took.Seconds()), nil
}

// accident is an event on a machine during an operation.
type accident struct {
	name string
	do   func(ctx context.Context, m *lab.Machine) error
	undo func(ctx context.Context, m *lab.Machine) error
}

// lostConnections ends the SSH connections of a machine during applies.
func lostConnections(ctx context.Context, e *Env) ([]Result, error) {
	return accidents(ctx, e, accident{
		name: "lost connection",
		do:   func(ctx context.Context, m *lab.Machine) error { return m.HangUp(ctx) },
		undo: func(context.Context, *lab.Machine) error { return nil },
	})
}

// powerCuts cuts the power of a machine during applies: what was not flushed is lost.
func powerCuts(ctx context.Context, e *Env) ([]Result, error) {
	if err := e.Lab.Machines()[2].RebuildOnImage(ctx); err != nil {
		return nil, err
	}
	return accidents(ctx, e, accident{
		name: "power cut",
		do:   func(ctx context.Context, m *lab.Machine) error { return m.CutPower(ctx) },
		undo: func(ctx context.Context, m *lab.Machine) error { return m.Boot(ctx) },
	})
}

// stage is the operation on the third machine during which the accident happens.
type stage struct {
	name     string
	machines int // in use afterwards
	set      func(n int) error
	took     time.Duration // of an undisturbed run, from when the apply reached that machine
}

// accidents happen at random times to the third machine, while it leaves, joins, and is
// changed. The apply after each must restore everything.
func accidents(ctx context.Context, e *Env, a accident) ([]Result, error) {
	bare, err := fleet(e.Lab.Machines()).fingerprints(ctx)
	if err != nil {
		return nil, err
	}
	s, err := newSite(ctx, e)
	if err != nil {
		return nil, err
	}
	stages := []*stage{
		{name: "leaves", machines: 2, set: func(int) error { return s.assign("machines", s.work.Machines(2)) }},
		{name: "joins", machines: 3, set: func(int) error { return s.assign("machines", s.work.Machines(3)) }},
		{name: "is changed", machines: 3, set: func(n int) error {
			return s.assign("etcd_extra_args", map[string]string{"max-txn-ops": fmt.Sprint(129 + n)})
		}},
	}
	result := Result{Name: a.name + ": the next apply converges"}
	missed, noticed := 0, 0
	for n := range e.Sample + 1 { // the first round only measures the time
		for _, st := range stages {
			if err := st.set(n); err != nil {
				return []Result{result}, err
			}
			if n == 0 {
				if err := s.timed(ctx, st); err != nil {
					return []Result{result}, err
				}
				continue
			}
			after := time.Duration(e.Random.Int64N(int64(st.took)))
			o, err := s.duringApply(ctx, a, after)
			if err == nil {
				err = s.three().clean(ctx, st.machines, bare)
			}
			fmt.Fprintf(e.Log, "%s %.1f s after the machine's turn came, which %s: %s, %v\n", a.name, after.Seconds(), st.name,
				o, err)
			switch {
			case err != nil:
				result.count(false)
				return []Result{result}, fmt.Errorf("%s %.1f s after the machine's turn came, which %s: %w", a.name,
					after.Seconds(), st.name, err)
			case o == tooLate:
				missed++
				continue
			case o == applyFailed:
				noticed++
			}
			result.count(true)
		}
	}
	result.Detail = fmt.Sprintf("the apply failed %d times and succeeded the other times; %d accidents came too late "+
		"and do not count", noticed, missed)
	return []Result{result}, nil
}

// timed applies without an accident and measures the time from when the apply reached the third
// machine.
func (s *site) timed(ctx context.Context, st *stage) error {
	var begun time.Time
	w := s.notifyingWorkspace(func() { begun = time.Now() })
	if _, err := w.Apply(ctx, s.env.Log); err != nil {
		return err
	}
	if begun.IsZero() {
		return fmt.Errorf("nothing was done on %s when it should have been the machine that %s", s.target().Name, st.name)
	}
	st.took = time.Since(begun)
	return nil
}

// outcome is the result of an apply during an accident.
type outcome string

const (
	tooLate        outcome = "the apply had ended before"
	applyFailed    outcome = "the apply failed"
	applySucceeded outcome = "the apply succeeded all the same"
)

// duringApply lets the accident happen some time after the apply has reached the third machine,
// and applies again.
func (s *site) duringApply(ctx context.Context, a accident, after time.Duration) (outcome, error) {
	turn, applied := make(chan struct{}), make(chan struct{})
	happened := make(chan error, 1)
	late := false // read after happened
	w := s.notifyingWorkspace(func() {
		close(turn)
		go func() {
			select {
			case <-applied:
				late = true
			case <-time.After(after):
			}
			happened <- a.do(ctx, s.target())
		}()
	})
	_, failure := w.Apply(ctx, s.env.Log)
	close(applied)
	select {
	case <-turn:
	default:
		return tooLate, errors.Join(fmt.Errorf("the apply never reached %s", s.target().Name), failure)
	}
	if err := <-happened; err != nil {
		return tooLate, err
	}
	o := applySucceeded
	switch {
	case failure != nil:
		o = applyFailed
	case late:
		o = tooLate
	}
	if err := a.undo(ctx, s.target()); err != nil {
		return o, err
	}
	if err := s.applyQuietly(ctx); err != nil {
		return o, err
	}
	return o, s.checkConverged(ctx)
}

// target is the machine that accidents happen to.
func (s *site) target() *lab.Machine { return s.three()[2] }

// notifyingWorkspace returns the workspace with an Apply that calls tell once when the first
// resource on the third machine begins.
func (s *site) notifyingWorkspace(tell func()) *workspace.Workspace {
	var once sync.Once
	w := *s.work
	w.Started = func(address string) {
		if strings.Contains(address, `"`+s.target().Name+`"`) {
			once.Do(tell)
		}
	}
	return &w
}

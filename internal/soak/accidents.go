package soak

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

func accidentScenarios() []Scenario {
	return []Scenario{
		{"partition", partition},
		{"lost connection", lostConnections},
		{"power cut", powerCuts},
	}
}

// partition cuts one of three machines off: a change is refused with nothing
// touched, and applies when the network is back.
func partition(ctx context.Context, e *Env) ([]Result, error) {
	s, err := newSite(ctx, e)
	if err != nil {
		return nil, err
	}
	refused := Result{Name: "partition: a change is refused and nothing touched"}
	healed := Result{Name: "partition: healed, it applies"}
	for n, variable := range []string{"apiserver_extra_args", "etcd_extra_args"} {
		flag := map[string]map[string]string{"apiserver_extra_args": {"v": "3"}, "etcd_extra_args": {"max-txn-ops": "129"}}[variable]
		away := e.Lab.Machines()[2-n]
		ok, detail, err := s.refuses(ctx, away, variable, flag)
		if err != nil {
			return []Result{refused, healed}, err
		}
		refused.count(ok)
		refused.Detail += variable + ": " + detail + ". "
		err = s.apply(ctx)
		if err == nil {
			err = s.settled(ctx)
		}
		healed.count(err == nil)
		if err != nil {
			return []Result{refused, healed}, err
		}
	}
	return []Result{refused, healed}, nil
}

// refuses tries a change while a machine is cut off.
func (s *site) refuses(ctx context.Context, away *lab.Machine, variable string, value any) (ok bool, detail string, err error) {
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
	failure := s.quietly(ctx)
	took := time.Since(begun)
	after, lookErr := s.starts(ctx, others)
	if err := away.Heal(ctx); err != nil {
		return false, "", err
	}
	if lookErr != nil {
		return false, "", lookErr
	}
	fmt.Fprintf(s.env.Log, "while %s is cut off, after %.0f s: %v\n", away.Name, took.Seconds(), failure)
	if err := s.await(ctx, time.Minute, s.healthy); err != nil {
		return false, "", err
	}
	return failure != nil && before == after, fmt.Sprintf("refused: %v, touched: %v, after %.0f s", failure != nil, before != after, took.Seconds()), nil
}

// accident happens to a machine while something is done on it.
type accident struct {
	name string
	do   func(ctx context.Context, m *lab.Machine) error
	undo func(ctx context.Context, m *lab.Machine) error
}

// lostConnections ends the SSH sessions of a machine in the middle of applies.
func lostConnections(ctx context.Context, e *Env) ([]Result, error) {
	return accidents(ctx, e, accident{
		name: "lost connection",
		do: func(ctx context.Context, m *lab.Machine) error {
			_, err := m.Run(ctx, "systemd-run --quiet --collect systemctl stop 'session-*.scope'")
			return err
		},
		undo: func(context.Context, *lab.Machine) error { return nil },
	})
}

// powerCuts pull the plug of a machine in the middle of applies.
func powerCuts(ctx context.Context, e *Env) ([]Result, error) {
	return accidents(ctx, e, accident{
		name: "power cut",
		do:   func(ctx context.Context, m *lab.Machine) error { return m.PowerOff(ctx) },
		undo: func(ctx context.Context, m *lab.Machine) error { return m.Boot(ctx) },
	})
}

// accidents happen at random moments to the third machine, while it joins, while
// it is changed, and while it leaves; the apply after each has to make all whole.
func accidents(ctx context.Context, e *Env, a accident) ([]Result, error) {
	s, err := newSite(ctx, e)
	if err != nil {
		return nil, err
	}
	result := Result{Name: a.name + ": the next apply converges"}
	for n := range e.Sample {
		for _, step := range []struct {
			name string
			set  func() error
		}{
			{"leaves", func() error { return s.assign("machines", s.work.Machines(2)) }},
			{"joins", func() error { return s.assign("machines", s.work.Machines(3)) }},
			{"is changed", func() error {
				return s.assign("etcd_extra_args", map[string]string{"max-txn-ops": fmt.Sprint(129 + n)})
			}},
		} {
			if err := step.set(); err != nil {
				return []Result{result}, err
			}
			after := time.Duration(e.Random.IntN(8000)) * time.Millisecond
			err := s.amid(ctx, a, after)
			result.count(err == nil)
			if err != nil {
				return []Result{result}, fmt.Errorf("%s %.1f s after the apply began, while the machine %s: %w", a.name, after.Seconds(), step.name, err)
			}
		}
	}
	return []Result{result}, nil
}

// amid lets the accident happen some time after the apply began with the third
// machine.
func (s *site) amid(ctx context.Context, a accident, after time.Duration) error {
	victim := s.env.Lab.Machines()[2]
	var once sync.Once
	var happened error
	done := make(chan struct{})
	w := *s.work
	w.Started = func(address string) {
		if !strings.Contains(address, `"`+victim.Name+`"`) {
			return
		}
		once.Do(func() {
			go func() {
				defer close(done)
				pause(ctx, after)
				happened = a.do(ctx, victim)
			}()
		})
	}
	_, failure := w.Apply(ctx, s.env.Log)
	<-done
	if happened != nil {
		return happened
	}
	fmt.Fprintf(s.env.Log, "%s after %.1f s: the apply failed: %v\n", a.name, after.Seconds(), failure != nil)
	if err := a.undo(ctx, victim); err != nil {
		return err
	}
	if err := s.quietly(ctx); err != nil {
		return err
	}
	return s.settled(ctx)
}

package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// The day-2 operations. Each is measured as `terraform apply` and by hand, on the same
// machines, from the same state to the same state.
const (
	grown    = "scale 3 → 5"
	shrunk   = "scale 5 → 3"
	replaced = "replace of one member (its replica pauses)"
	changed  = "change of a flag of all three API servers"
)

// The shutdown delay of the API servers is the provider's choice, so each step that stops one is
// also compared with a script without it.
const withoutDelay = ", without the shutdown delay"

// step is one change of a running control plane.
type step struct {
	name   string
	before func(context.Context) error // not measured; nil for none
	act    func(context.Context) error
	leaves int                         // number of machines in the control plane afterwards; 0 for no control plane
	after  func(context.Context) error // not measured: additional checks; nil for none
}

// runSteps runs the steps one after the other. A step with the wrong result is an error,
// because its time would be meaningless.
func (b *bench) runSteps(ctx context.Context, who string, steps []step) (times, error) {
	took := times{}
	for _, s := range steps {
		if s.before != nil {
			if err := s.before(ctx); err != nil {
				return nil, fmt.Errorf("before %s, %s: %w", s.name, who, err)
			}
		}
		seconds, err := timed(func() error { return s.act(ctx) })
		if err == nil && s.leaves > 0 {
			err = b.waitForHealthy(ctx, s.leaves)
		}
		if err == nil && s.after != nil {
			err = s.after(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", s.name, who, err)
		}
		fmt.Fprintf(b.log, "%s, %s: %.2f s\n", s.name, who, seconds)
		took[s.name] = append(took[s.name], seconds)
	}
	return took, nil
}

// dayTwo measures the steps with Terraform, from three machines to five.
func (b *bench) dayTwo(ctx context.Context, round int, took times) error {
	flags := map[string]string{"max-requests-inflight": strconv.Itoa(500 + round)} // harmless
	steps, err := b.runSteps(ctx, "terraform", []step{
		b.replace(), b.apply(changed, few, flags), b.apply(grown, many, flags), b.apply(shrunk, few, flags),
		b.apply(grown, many, flags),
	})
	took.add(steps.by("terraform"))
	return err
}

// apply returns a step that changes variables. New machines have the programs and the packages,
// as in the measurement of the first apply.
func (b *bench) apply(name string, machines int, flags map[string]string) step {
	return step{
		name:   name,
		leaves: machines,
		before: func(ctx context.Context) error {
			if err := b.want(machines, flags); err != nil {
				return err
			}
			return b.prepare(ctx, b.first(machines)[few:], newer)
		},
		act: func(ctx context.Context) error {
			_, err := b.work.Apply(ctx, b.log)
			return err
		},
	}
}

// replace returns a step with -replace of a member that is not the leader.
func (b *bench) replace() step {
	var follower *lab.Machine
	return step{
		name:   replaced,
		leaves: few,
		before: func(ctx context.Context) (err error) {
			follower, err = b.follower(ctx)
			return err
		},
		act: func(ctx context.Context) error {
			_, err := b.work.Apply(ctx, b.log, fmt.Sprintf("-replace=kube_etcd_member.this[%q]", follower.Name))
			return err
		},
	}
}

// follower returns one of the three machines whose etcd member is not the leader.
func (b *bench) follower(ctx context.Context) (*lab.Machine, error) {
	for _, m := range b.first(few) {
		leads, err := leads(ctx, m)
		if err != nil {
			return nil, err
		}
		if !leads {
			return m, nil
		}
	}
	return nil, fmt.Errorf("every member of %d says that it leads", few)
}

// leads reports whether the member on a machine is the leader.
func leads(ctx context.Context, m *lab.Machine) (bool, error) {
	metrics, err := m.Run(ctx, "curl -sf http://127.0.0.1:2381/metrics | grep '^etcd_server_is_leader '")
	if err != nil {
		return false, fmt.Errorf("ask %s whether it leads: %w", m.Name, err)
	}
	return metrics == "etcd_server_is_leader 1\n", nil
}

// waitForHealthy waits until a control plane of n machines is healthy.
func (b *bench) waitForHealthy(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for _, m := range b.first(n) {
		if err := run(ctx, m, with(variables(m),
			with(map[string]string{"n": strconv.Itoa(n)}, memberScript+healthyScript))); err != nil {
			return err
		}
	}
	return b.waitFor(ctx, fmt.Sprintf("https://%s:6443/readyz", b.work.VIP()))
}

// by returns the times with who performed the steps in their names.
func (t times) by(who string) times {
	out := times{}
	for name, values := range t {
		out[who+": "+name] = values
	}
	return out
}

// compareDayTwo compares Terraform's times with those of the same steps by hand.
func compareDayTwo(all times) []Result {
	var results []Result
	for _, name := range []string{grown, shrunk, replaced, changed} {
		results = append(results, ratioTo("terraform apply, "+name+", against a script", all["terraform: "+name],
			all["by hand: "+name], "s"))
	}
	for _, name := range []string{shrunk, replaced, changed} {
		results = append(results, ratioTo("terraform apply, "+name+", against a script"+withoutDelay,
			all["terraform: "+name], all["by hand: "+name+withoutDelay], "s"))
	}
	return results
}

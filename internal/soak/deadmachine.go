package soak

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
)

// Limits for the loss of the most important machine.
const (
	addressBack = 2 * time.Second
	writesBack  = 3 * time.Second
)

func deadMachineScenario() Scenario { return Scenario{Name: "dead machine", Run: deadMachine} }

// deadMachine powers off, several times, the machine that has the virtual IP and whose member
// is etcd's leader. Clients on fresh connections measure when the address answers again, and
// when it accepts writes.
func deadMachine(ctx context.Context, e *Env) ([]Result, error) {
	s, err := newSite(ctx, e)
	if err != nil {
		return nil, err
	}
	address := Result{Name: fmt.Sprintf("dead machine: the virtual IP answers within %s", addressBack)}
	writes := Result{Name: fmt.Sprintf("dead machine: and takes writes within %s", writesBack)}
	kept := Result{Name: "dead machine: no acknowledged write is lost"}
	var answered, written []time.Duration
	for range e.Sample {
		report, err := s.lose(ctx)
		if err != nil {
			return []Result{address, writes, kept}, err
		}
		address.Series = report.Series()
		fresh := report.Clients[1]
		answered, written = append(answered, fresh.Reads.Gap.Length), append(written, fresh.Writes.Gap.Length)
		address.count(fresh.Reads.Gap.Length <= addressBack)
		writes.count(fresh.Writes.Gap.Length <= writesBack)
		kept.count(len(report.Lost()) == 0 && report.HashesAgree())
		kept.Detail += fmt.Sprintf("%d acknowledged, %d lost. ", report.Acknowledged(), len(report.Lost()))
	}
	address.Detail = fmt.Sprintf("longest %s, mean %s", longest(answered), mean(answered))
	writes.Detail = fmt.Sprintf("longest %s, mean %s", longest(written), mean(written))
	return []Result{address, writes, kept}, s.checkConverged(ctx)
}

func (r *Result) count(passed bool) {
	r.Tried++
	if passed {
		r.Passed++
	}
}

// lose powers a machine off while clients are running, and on again.
func (s *site) lose(ctx context.Context) (load.Report, error) {
	victim, err := s.holder(ctx)
	if err != nil {
		return load.Report{}, err
	}
	three := s.three()
	at := slices.IndexFunc(three, func(m *lab.Machine) bool { return m.Name == victim.Name })
	if err := three.lead(ctx, at); err != nil {
		return load.Report{}, err
	}
	return s.during(ctx, func() error {
		fmt.Fprintf(s.env.Log, "pulling the plug of %s\n", victim.Name)
		if err := victim.PowerOff(ctx); err != nil {
			return err
		}
		if err := load.Sleep(ctx, 10*time.Second); err != nil {
			return err
		}
		if err := victim.Boot(ctx); err != nil {
			return err
		}
		return eventually(ctx, time.Minute, 300*time.Millisecond, s.healthy)
	})
}

// healthy returns an error for the first unhealthy machine.
func (s *site) healthy(ctx context.Context) error {
	for _, m := range s.three() {
		script := with(map[string]string{"address": m.Address.String()}, etcdctl+healthyScript)
		if _, err := m.Run(ctx, script); err != nil {
			return fmt.Errorf("%s is not healthy: %w", m.Name, err)
		}
	}
	return nil
}

// eventually repeats check until it succeeds. When the limit is reached, it returns the check's
// last error.
func eventually(ctx context.Context, limit, interval time.Duration, check func(context.Context) error) error {
	var last error
	stopped := wait.PollUntilContextTimeout(ctx, interval, limit, true, func(context.Context) (bool, error) {
		err := check(ctx) // without the limit: a check is completed
		if last == nil || ctx.Err() == nil {
			last = err
		}
		return err == nil, nil
	})
	if stopped == nil || last == nil {
		return stopped
	}
	return errors.Join(last, context.Cause(ctx))
}

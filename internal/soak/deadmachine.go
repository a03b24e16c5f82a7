package soak

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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

// outage returns the criteria for the loss of a machine. They apply to each client, on fresh
// connections and on the kept one. Of each client may fail what it sends while the virtual IP may
// be away.
func outage() load.Criteria {
	return outageOf(addressBack, load.Gaps{Reads: addressBack, Writes: writesBack})
}

// outageOf is outage for an address that is away for at most that long.
func outageOf(away time.Duration, longest load.Gaps) load.Criteria {
	c := load.Unnoticed()
	c.MostFailed = int(float64(c.Rate) * away.Seconds())
	c.Longest = longest
	c.Excuses = []load.Excuse{{
		Operation: load.EtcdWrite,
		Reason: "the member that is dead leads etcd, so that writes wait for an election, and etcd's client sends a part " +
			"of them to it until it detects that it is dead",
	}, load.Away(away)}
	return c
}

// deadMachine powers off, several times, the machine that has the virtual IP and whose member
// is etcd's leader. Clients on fresh connections and one that keeps its connection measure when
// the address answers again, and when it accepts writes.
func deadMachine(ctx context.Context, e *Env) ([]Result, error) {
	s, err := newSite(ctx, e)
	if err != nil {
		return nil, err
	}
	c := outage()
	var reports []load.Report
	for range e.Sample {
		report, err := s.lose(ctx, c)
		if err != nil {
			return outageResults(reports, c), err
		}
		reports = append(reports, report)
	}
	return outageResults(reports, c), s.checkConverged(ctx)
}

// outageResults returns what clients observed each time. The first result has the verdict of all
// criteria.
func outageResults(reports []load.Report, c load.Criteria) []Result {
	address := Result{
		Name: fmt.Sprintf("dead machine: the virtual IP answers within %s", addressBack), Criteria: c.Words(true),
	}
	writes := Result{Name: fmt.Sprintf("dead machine: and takes writes within %s", writesBack)}
	fails := Result{Name: fmt.Sprintf("dead machine: at most %d requests of each client fail", c.MostFailed)}
	kept := Result{Name: "dead machine: no acknowledged write is lost"}
	var requests, etcd, openings load.Requests
	answered, written, failures := map[string][]time.Duration{}, map[string][]time.Duration{}, map[string][]int{}
	for n, report := range reports {
		address.Series = report.Series()
		address.judge(n+1, report, c)
		for _, client := range report.Clients {
			name := client.Name
			answered[name] = append(answered[name], client.Reads.Gap.Length)
			written[name] = append(written[name], client.Writes.Gap.Length)
			failures[name] = append(failures[name], client.All.Failed)
			address.count(client.Reads.Gap.Length <= c.Longest.Reads)
			writes.count(client.Writes.Gap.Length <= c.Longest.Writes)
			fails.count(client.All.Unexcused() <= c.MostFailed)
		}
		kept.countWrites(report)
		requests, etcd = requests.Plus(report.Requests()), etcd.Plus(report.EtcdWrites())
		openings = openings.Plus(report.Openings())
	}
	address.Detail, writes.Detail = byClient(answered), byClient(written)
	for _, name := range slices.Sorted(maps.Keys(failures)) {
		fails.Detail += fmt.Sprintf("%s: %v; ", name, failures[name])
	}
	fails.Detail += operations(requests, etcd, openings)
	return []Result{address, writes, fails, kept}
}

// byClient describes the longest and the mean time of each client.
func byClient(times map[string][]time.Duration) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(times)) {
		all = append(all, fmt.Sprintf("%s: longest %s, mean %s", name, longest(times[name]), mean(times[name])))
	}
	return strings.Join(all, "; ")
}

// judge adds what clients observed the n-th time, with the verdict of all criteria.
func (r *Result) judge(n int, report load.Report, c load.Criteria) {
	r.Observed = append(r.Observed, report.Summary())
	for _, violated := range load.Verdict(report, c) {
		r.Violated = append(r.Violated, fmt.Sprintf("time %d: %s", n, violated))
	}
}

// countWrites counts a time as passed if no acknowledged write is lost, and the members agree.
func (r *Result) countWrites(report load.Report) {
	r.count(len(report.Lost()) == 0 && report.HashesAgree())
	r.Detail += fmt.Sprintf("%d acknowledged, %d lost. ", report.Acknowledged(), len(report.Lost()))
}

func (r *Result) count(passed bool) {
	r.Tried++
	if passed {
		r.Passed++
	}
}

// lose powers a machine off while clients are running, and on again.
func (s *site) lose(ctx context.Context, c load.Criteria) (load.Report, error) {
	victim, err := s.holder(ctx)
	if err != nil {
		return load.Report{}, err
	}
	three := s.three()
	at := slices.IndexFunc(three, func(m *lab.Machine) bool { return m.Name == victim.Name })
	if err := three.lead(ctx, at); err != nil {
		return load.Report{}, err
	}
	return s.during(ctx, c, func() error { return s.powerCycle(ctx, victim, 10*time.Second) })
}

// powerCycle leaves a machine without power for a time, and waits until all are healthy again.
func (s *site) powerCycle(ctx context.Context, victim *lab.Machine, off time.Duration) error {
	fmt.Fprintf(s.env.Log, "pulling the plug of %s\n", victim.Name)
	s.cut = time.Now()
	if err := victim.PowerOff(ctx); err != nil {
		return err
	}
	if err := load.Sleep(ctx, off); err != nil {
		return err
	}
	if err := victim.Boot(ctx); err != nil {
		return err
	}
	return eventually(ctx, time.Minute, 300*time.Millisecond, s.healthy)
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

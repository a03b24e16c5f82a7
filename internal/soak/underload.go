package soak

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/load"
)

// quietTime is how long the clients run before and after a change.
const quietTime = 3 * time.Second

// change is a change of a control plane that its clients must not notice.
type change struct {
	name string
	do   func(ctx context.Context, s *site) error
}

// changes are the usual operations on a control plane of three.
var changes = []change{
	{"nothing", func(context.Context, *site) error { return nil }}, // the baseline of the measurement itself
	{"a flag of the API servers", assigning("apiserver_extra_args", map[string]string{"v": "3"})},
	{"a flag of etcd", assigning("etcd_extra_args", map[string]string{"max-txn-ops": "129"})},
	{"the endpoint", changeEndpoint},
	{"a lost certificate", loseCertificate},
	{"rotation of everything: the next is trusted", rotating(1)},
	{"rotation of everything: the next issues", rotating(2)},
	{"rotation of everything: the previous is dropped", rotating(3)},
	{"replace of a replica", replacing("kube_control_plane_replica")},
	{"replace of a member", replacing("kube_etcd_member")},
	{"scale up to five", scaling(5)},
	{"nothing, on five", func(context.Context, *site) error { return nil }},
	{"scale down to three", scaling(3)},
	{"scale down to one", scaling(1)},
	{"scale up to three", scaling(3)},
}

// rotating moves all authorities, keys and encryption at rest by one stage. The rotation turns
// encryption on.
func rotating(stage int) func(context.Context, *site) error {
	numbers := map[string]int{
		"kubernetes": stage, "etcd": stage, "front_proxy": stage, "service_account": stage,
		"encryption": stage,
	}
	return func(ctx context.Context, s *site) error {
		s.variables["encryption"] = map[string]string{"provider": "secretbox"}
		return s.set(ctx, "rotation", numbers)
	}
}

func scaling(n int) func(context.Context, *site) error {
	return func(ctx context.Context, s *site) error { return s.resize(ctx, n) }
}

func loadScenario() Scenario { return Scenario{Name: "under load", Run: underLoad} }

// underLoad makes all changes on one control plane, each with its own clients.
func underLoad(ctx context.Context, e *Env) ([]Result, error) {
	if err := e.Lab.Add(ctx, "cp4", "cp5"); err != nil {
		return nil, err
	}
	s, err := newSite(ctx, e)
	if err != nil {
		return nil, err
	}
	var results []Result
	for _, c := range changes {
		before, err := s.holder(ctx)
		if err != nil {
			return results, err
		}
		judgement, err := s.unnoticed(ctx, "under load", c)
		if err != nil {
			return results, err
		}
		after, err := s.holder(ctx)
		if err != nil {
			return results, err
		}
		if after.Name != before.Name { // this ends the connections through it
			judgement[0].Detail += fmt.Sprintf("; the virtual IP moved from %s to %s", before.Name, after.Name)
		}
		results = append(results, judgement...)
	}
	return results, nil
}

// unnoticed makes changes that clients must not notice, each with its own clients.
func (s *site) unnoticed(ctx context.Context, prefix string, all ...change) ([]Result, error) {
	var results []Result
	criteria := load.Unnoticed()
	for _, c := range all {
		report, err := s.during(ctx, criteria, func() error { return c.do(ctx, s) })
		if err == nil {
			err = s.checkConverged(ctx)
		}
		if err != nil {
			return results, fmt.Errorf("%s: %w", c.name, err)
		}
		results = append(results, loadResults(prefix+": "+c.name, report, criteria)...)
	}
	return results, nil
}

// during runs act with clients on the control plane.
func (s *site) during(ctx context.Context, c load.Criteria, act func() error) (load.Report, error) {
	return s.duringLoad(ctx, c, func(*load.Load) error { return act() })
}

// duringLoad is during for what depends on the clients.
func (s *site) duringLoad(ctx context.Context, c load.Criteria, act func(*load.Load) error) (load.Report, error) {
	l, err := s.load(ctx, c)
	if err != nil {
		return load.Report{}, err
	}
	_ = load.Sleep(ctx, quietTime) // the next step detects the end of ctx
	failure := act(l)
	_ = load.Sleep(ctx, quietTime)
	report, err := l.Stop(ctx)
	fmt.Fprintln(s.env.Log, report)
	if failure != nil {
		return report, failure
	}
	return report, err
}

// loadResults returns what clients observed as results: answered requests with the verdict of all
// criteria, clients and watches without a long gap, and no lost writes and events in etcd and the
// watches.
func loadResults(name string, r load.Report, c load.Criteria) []Result {
	requests := Result{
		Name: name, Tried: r.Tried(), Passed: r.Tried() - r.Requests().Unexcused(),
		Detail:   fmt.Sprintf("%.0f s, sent at most %d ms late; %s", r.Took.Seconds(), r.Late.Milliseconds(), countsOf(r)),
		Criteria: c.Words(true), Violated: load.Verdict(r, c), Observed: []load.Summary{r.Summary()}, Series: r.Series(),
	}
	gaps := Result{
		Name: fmt.Sprintf("%s: no gap over %s", name, c.Longest.Any), Detail: "longest " + r.LongestGap().String(),
	}
	kept := Result{Name: name + ": writes and events kept"}
	for _, client := range r.Clients {
		gaps.count(client.All.Gap.Length <= c.Longest.Any)
	}
	for _, w := range r.Watches {
		gaps.count(w.Gap.Length <= c.Longest.Events)
		kept.Tried += w.Events
		kept.Passed += w.Events - len(w.Missed) - w.Repeated - w.Disordered
	}
	kept.Tried += r.Acknowledged()
	kept.Passed += r.Acknowledged() - len(r.Lost())
	if !r.HashesAgree() {
		kept.Passed = 0
	}
	kept.Detail = fmt.Sprintf("%d writes acknowledged, %d lost; members agree: %v", r.Acknowledged(), len(r.Lost()),
		r.HashesAgree())
	if len(requests.Violated) > 0 {
		requests.Detail += "; " + strings.Join(requests.Violated, "; ")
	}
	return []Result{requests, gaps, kept}
}

func assigning(variable string, value any) func(context.Context, *site) error {
	return func(ctx context.Context, s *site) error { return s.set(ctx, variable, value) }
}

// changeEndpoint renders HAProxy's configuration again and has it reloaded on all machines.
func changeEndpoint(ctx context.Context, s *site) error {
	const override = `resource "kube_control_plane_endpoint" "this" { ca_certificate = null }`
	if err := os.WriteFile(filepath.Join(s.work.Dir, "endpoint_override.tf"), []byte(override+"\n"), 0o600); err != nil {
		return err
	}
	return s.apply(ctx)
}

// loseCertificate deletes the API server's serving certificate on a machine, and applies.
func loseCertificate(ctx context.Context, s *site) error {
	if _, err := s.machine("cp2").Run(ctx, "rm /etc/kubernetes/pki/apiserver.crt"); err != nil {
		return err
	}
	return s.apply(ctx)
}

// replacing replaces a resource on the first machine.
func replacing(kind string) func(context.Context, *site) error {
	return func(ctx context.Context, s *site) error {
		return s.apply(ctx, fmt.Sprintf("-replace=%s.this[%q]", kind, machineNames[0]))
	}
}

// mean returns the average of durations, for a detail.
func mean(all []time.Duration) time.Duration {
	var sum time.Duration
	for _, d := range all {
		sum += d
	}
	return (sum / time.Duration(max(len(all), 1))).Round(10 * time.Millisecond)
}

func longest(all []time.Duration) time.Duration { return slices.Max(all).Round(10 * time.Millisecond) }

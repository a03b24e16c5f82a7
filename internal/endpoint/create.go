package endpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// settleTime bounds the wait for the first holder. VRRP elects one within a
// second; the rest is for machines busy with other things.
const settleTime = 20 * time.Second

// Create claims every host, installs and starts HAProxy and keepalived on them and
// waits until exactly one of them holds the VIP and HAProxy answers there.
func Create(ctx context.Context, s Spec) (Status, error) {
	if err := s.validate(); err != nil {
		return Status{}, refused(s, "created", err)
	}
	seen, err := observe(ctx, s, question(s, true))
	if err != nil {
		return Status{}, refused(s, "created", err)
	}
	if err := strangers(s, "created", seen); err != nil {
		return Status{}, err
	}
	if err := preflight(s, seen); err != nil {
		return Status{}, err
	}
	if err := keepTrust(ctx, s, "created", seen); err != nil {
		return Status{}, err
	}
	if err := claim(ctx, s, "created", seen); err != nil {
		return Status{}, err
	}
	if err := installOn(ctx, s, seen); err != nil {
		return Status{}, err
	}
	servers := s.servers(ctx, seen)
	err = onHosts(names(s.Hosts), func(name string) error {
		return applyOn(ctx, s, name, seen[name], servers[name])
	})
	if err != nil {
		return Status{}, err
	}
	return converge(ctx, s)
}

// converge waits until the endpoint is as it shall be. Replicas that came or went
// meanwhile may have left lists that differ: these are mended then.
func converge(ctx context.Context, s Spec) (Status, error) {
	const rounds = 3
	for round := 1; ; round++ {
		found, seen, err := settle(ctx, s)
		if err != nil || round == rounds {
			return found, err
		}
		servers, again := s.servers(ctx, reachableOf(seen)), false
		for _, name := range names(servers) {
			if servers[name] == seen[name].facts.Files[backendsPath].Content {
				continue
			}
			again = true
			if err := applyOn(ctx, s, name, seen[name], servers[name]); err != nil {
				return found, err
			}
		}
		if !again {
			return found, nil
		}
	}
}

// read observes every host in one round trip each, in parallel. Some hosts
// unreachable: reported in Status.Hosts; all of them: host.ErrUnreachable.
func read(ctx context.Context, s Spec) (Status, map[string]balancer, error) {
	seen, err := observe(ctx, s, question(s, false))
	if err != nil {
		return Status{}, nil, fmt.Errorf("read endpoint %s: %w", s.Address, err)
	}
	reachable, present := 0, false
	for _, b := range seen {
		if b.unreachable == nil {
			reachable++
			present = present || b.present()
		}
	}
	switch {
	case reachable == 0:
		return Status{}, nil, fmt.Errorf("read endpoint %s: %w", s.Address, unreachableOf(seen))
	case reachable == len(s.Hosts) && !present:
		return Status{}, nil, missing(s)
	}
	return status(s, seen), seen, nil
}

// missing is ErrGone with the evidence, for the words beside the new endpoint
// that the next plan shows.
func missing(s Spec) error {
	return &problem.Problem{
		Summary: "Endpoint " + s.Address + " is gone", Host: strings.Join(names(s.Hosts), ", "), Err: ErrGone,
		Cause: "every machine answers and nothing of it is on any",
		Next:  "apply to create it anew; if it shall stay away, take it out of the configuration",
	}
}

// settle waits until exactly one host holds the VIP and both programs run on
// every reachable one.
func settle(ctx context.Context, s Spec) (found Status, seen map[string]balancer, err error) {
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, settleTime, true, func(ctx context.Context) (bool, error) {
		now, err := observe(ctx, s, question(s, false))
		if err != nil {
			return false, err
		}
		seen = now
		return settled(s, seen), nil
	})
	switch {
	case err == nil:
		return status(s, seen), seen, nil
	case wait.Interrupted(err):
		return status(s, seen), seen, unsettled(s, seen)
	}
	return Status{}, nil, fmt.Errorf("wait for a holder of %s: %w", s.Address, err)
}

func settled(s Spec, seen map[string]balancer) bool {
	for _, b := range seen {
		if b.unreachable == nil && health(b) != "ok" {
			return false
		}
	}
	return len(holders(s, seen)) == 1
}

func unsettled(s Spec, seen map[string]balancer) error {
	var lines []string
	for _, name := range names(seen) {
		line := name + ": " + health(seen[name])
		if seen[name].holds(s.Address) {
			line += ", holds the address"
		}
		lines = append(lines, line)
	}
	return &problem.Problem{
		Summary:   "endpoint " + s.Address + " does not answer",
		Cause:     fmt.Sprintf("after %s there is not exactly one host that holds the address with HAProxy and keepalived running on all", settleTime),
		Unchanged: "the configuration is in place on every reachable host.",
		Next:      "read the journal of " + haproxyUnit + " and " + keepalivedUnit + " on the hosts below; VRRP (IP protocol 112) must pass between them; then apply again",
		Detail:    "  " + strings.Join(lines, "\n  "),
	}
}

// installOn brings the missing packages to every reachable host, in parallel.
func installOn(ctx context.Context, s Spec, seen map[string]balancer) error {
	return onHosts(names(seen), func(name string) error {
		packages := missingPackages(seen[name].facts)
		if seen[name].unreachable != nil || len(packages) == 0 {
			return nil
		}
		problem.Progress(ctx, "install %s on %s", strings.Join(packages, ", "), name)
		if _, err := s.Hosts[name].Run(ctx, install(packages)); err != nil {
			return &problem.Problem{
				Summary:   "packages not installed",
				Host:      s.label(name),
				Cause:     err.Error(),
				Unchanged: "no configuration was written and nothing was started on this host.",
				Next:      "make " + strings.Join(packages, ", ") + " installable there, or install them by hand, and apply again",
				Err:       err,
			}
		}
		return nil
	})
}

// applyOn makes one host as it shall be and starts or reloads its programs.
func applyOn(ctx context.Context, s Spec, name string, b balancer, servers string) error {
	problem.Progress(ctx, "configure HAProxy and keepalived on %s", name)
	_, err := s.Hosts[name].Apply(ctx, change(s, name, b, servers))
	if err == nil {
		return nil
	}
	failure := &problem.Problem{
		Summary: "endpoint not configured",
		Host:    s.label(name),
		Cause:   err.Error(),
		Next:    "mend what is said above and apply again: what is done is not done twice",
		Err:     err,
	}
	var exit *host.ExitError
	if errors.As(err, &exit) {
		failure.Detail, _ = s.Hosts[name].UnitLog(ctx, haproxyUnit, 8) // the error stands without it
	}
	return failure
}

// listed are the servers of all hosts, each name and address once.
func listed(seen map[string]balancer) []server {
	var all []server
	for _, b := range seen {
		all = append(all, b.servers...)
	}
	slices.SortFunc(all, byName)
	return slices.Compact(all)
}

func (s Spec) label(name string) string { return name + " (" + s.Hosts[name].Address() + ")" }

func refused(s Spec, what string, err error) error {
	return &problem.Problem{
		Summary:   "endpoint " + s.Address + " not " + what,
		Cause:     err.Error(),
		Unchanged: problem.Nothing,
		Err:       err,
	}
}

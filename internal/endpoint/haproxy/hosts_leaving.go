package haproxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// leavingHosts returns before with only those hosts whose machines are not in s. seen are the machines of s: one that
// has another address in s stays.
func leavingHosts(before, s Spec, seen map[string]balancer) Spec {
	abandoned := before
	abandoned.Hosts = map[string]*host.Host{}
	remaining := slices.Collect(maps.Values(s.addresses()))
	for _, b := range seen {
		for _, ip := range b.local {
			remaining = append(remaining, ip.String())
		}
	}
	for name, machine := range before.Hosts {
		if !slices.Contains(remaining, machine.Address()) {
			abandoned.Hosts[name] = machine
		}
	}
	return abandoned
}

// stopLeavingHosts removes the address from hosts that leave. It returns those that cannot be
// reached in lost.
func stopLeavingHosts(ctx context.Context, leaving Spec) (lost map[string]error, err error) {
	var mu sync.Mutex
	lost = map[string]error{}
	err = onHosts(names(leaving.Hosts), func(name string) error {
		_, err := leaving.Hosts[name].Run(ctx, host.Command{Script: withOwner(stopScript), Vars: leaving.ownerVars()})
		if errors.Is(err, host.ErrUnreachable) {
			mu.Lock()
			defer mu.Unlock()
			lost[name] = err
			return nil
		}
		if err != nil {
			return fmt.Errorf("stop keepalived on %s, which leaves endpoint %s: %w", leaving.label(name), leaving.Address, err)
		}
		return nil
	})
	return lost, err
}

// cleanHosts removes the endpoint from all hosts except those in lost, in parallel. A host that
// belongs to another endpoint is not changed, and is returned.
func cleanHosts(ctx context.Context, s Spec, lost map[string]error) (alone []string, err error) {
	var mu sync.Mutex
	err = onHosts(names(s.Hosts), func(name string) error {
		if lost[name] != nil {
			return nil
		}
		problem.Progress(ctx, "remove the endpoint from %s", name)
		output, err := s.Hosts[name].Run(ctx, clean(s))
		if err != nil {
			return &problem.Problem{
				Summary: "Endpoint not removed from a host",
				Host:    s.label(name),
				Cause:   err.Error(),
				Next:    "apply again; completed steps are skipped",
				Err:     err,
			}
		}
		if word, rest := answer(output); word == answerOther {
			mu.Lock()
			defer mu.Unlock()
			alone = append(alone, s.label(name)+": "+describeOwner(rest)+", left alone")
		}
		return nil
	})
	slices.Sort(alone)
	for _, why := range alone {
		problem.Progress(ctx, "%s", why)
	}
	return alone, err
}

// unchangedHosts describes the hosts that an update could not reach.
func unchangedHosts(ctx context.Context, s, leaving Spec, seen map[string]balancer, lost map[string]error) error {
	if err := unreachableOf(seen); err != nil {
		return &problem.Problem{
			Summary:   "Endpoint " + s.Address + " changed only on the hosts that could be reached",
			Cause:     err.Error(),
			Unchanged: "these hosts keep their configuration; the others have the new one and serve.",
			Next:      "make them reachable and apply again, or take them out of haproxy.hosts",
			Err:       err,
		}
	}
	return requireAbandoned(ctx, leaving, lost, s.Abandon, othersDone)
}

// othersDone is for the error of a change that was made on all other hosts.
const othersDone = "these hosts may still run HAProxy and keepalived for the address; all others are done."

// requireAbandoned returns an error if there are hosts that could not be cleaned and that the
// user has not abandoned.
func requireAbandoned(
	ctx context.Context, s Spec, lost map[string]error, abandoned host.Abandoned, unchanged string,
) error {
	var left, kept, addresses []string
	var causes []error
	for _, name := range names(lost) {
		address := s.Hosts[name].Address()
		if abandoned.Covers(address, lost[name]) {
			left = append(left, s.label(name))
			continue
		}
		kept, addresses, causes = append(kept, s.label(name)), append(addresses, address), append(causes, lost[name])
	}
	if len(left) > 0 {
		problem.Progress(ctx, "hosts left as they are, because they cannot be reached: %s", strings.Join(left, ", "))
	}
	if len(kept) == 0 {
		return nil
	}
	err := errors.Join(causes...)
	return &problem.Problem{
		Summary:   "Endpoint " + s.Address + " not removed from every host",
		Host:      strings.Join(kept, ", "),
		Cause:     err.Error(),
		Unchanged: unchanged,
		Next:      "make them reachable and apply again, or, if they are gone for good, " + host.AbandonRemedy(addresses...),
		Err:       err,
	}
}

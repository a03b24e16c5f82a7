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

// observeLeaving observes the hosts that leave, and checks whether they may. seen are the hosts that stay.
func observeLeaving(ctx context.Context, s, leaving Spec, seen map[string]balancer) (map[string]balancer, error) {
	gone, err := observe(ctx, leaving, backendsQuery())
	if err != nil {
		return nil, refusedError(s, "changed", err)
	}
	if hang := hanging(leaving, gone); hang != nil {
		return nil, &problem.Problem{
			Summary: "Endpoint " + s.Address + " not changed", Host: hang.machines, Cause: hang.Error(),
			Unchanged: problem.Nothing, Next: leavingHangRemedy(hang.addresses), Err: hang,
		}
	}
	return gone, checkLeaving(s, leaving, seen, gone)
}

// checkLeaving refuses to take hosts out of the endpoint while only they know its replicas, or those that serve: the
// others would have the address, and would send no request to a replica. seen are the hosts that stay, and gone those
// that leave, as observed before the first change.
func checkLeaving(s, leaving Spec, seen, gone map[string]balancer) error {
	listed := allServers(seen)
	if slices.ContainsFunc(listed, func(at server) bool { return anySends(seen, at) || anySends(gone, at) }) {
		return nil
	}
	refusal := &problem.Problem{
		Summary: "Endpoint " + s.Address + " not changed", Attribute: "haproxy.hosts", Unchanged: problem.Nothing,
	}
	why := "no host that stays has a list of the replicas"
	knows := func(b balancer) bool { return len(b.servers) > 0 }
	if len(listed) > 0 {
		why = "no host that stays lists a replica that serves"
		knows = func(b balancer) bool { return slices.ContainsFunc(b.stats, stat.up) }
	}
	knowing := slices.DeleteFunc(names(gone), func(name string) bool { return !knows(gone[name]) })
	if len(knowing) > 0 {
		refusal.Host = leaving.labels(knowing)
		refusal.Cause = "these hosts leave, and " + why + ": clients would lose the API"
		refusal.Next = "apply twice: first keep one of these hosts in haproxy.hosts, so that the others get its list, then " +
			"take it out"
		return refusal
	}
	if len(listed) > 0 {
		return nil
	}
	unknown, addresses := unreadLists(s, leaving, gone)
	if len(unknown) == 0 || anyList(seen) || anyList(gone) {
		return nil
	}
	refusal.Host, refusal.Err = leaving.labels(unknown), unreachableOf(gone)
	refusal.Cause = "these hosts leave and cannot be read, and no other host has a list of the replicas: clients could " +
		"lose the API: " + refusal.Err.Error()
	refusal.Next = "make them reachable and apply again; if they are gone for good, " + host.AbandonRemedy(addresses...) +
		": the replicas then register at the other hosts"
	return refusal
}

// unreadLists returns the hosts that leave, cannot be read, and are not abandoned, with their addresses.
func unreadLists(s, leaving Spec, gone map[string]balancer) (unread, addresses []string) {
	for _, name := range names(lostOf(gone)) {
		if at := leaving.Hosts[name].Address(); !s.Abandon.Covers(at, gone[name].unreachable) {
			unread, addresses = append(unread, name), append(addresses, at)
		}
	}
	return unread, addresses
}

// anySends reports whether one of the hosts sends requests to a server.
func anySends(seen map[string]balancer, to server) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(seen)), func(b balancer) bool { return b.sends(to) })
}

// anyList reports whether one of the hosts has a list of servers.
func anyList(seen map[string]balancer) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(seen)), balancer.hasList)
}

// stopLeavingHosts removes the address from hosts that leave. gone is what was observed of them. It returns those that
// cannot be reached in lost.
func stopLeavingHosts(
	ctx context.Context, leaving Spec, gone map[string]balancer,
) (lost map[string]error, err error) {
	var mu sync.Mutex
	lost = lostOf(gone)
	err = onHosts(names(reachableOf(gone)), func(name string) error {
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

// What an apply has not done, or not on all hosts, after the address in a summary.
const (
	notCreated      = "not created"
	notChanged      = "not changed"
	notDeleted      = "not deleted"
	changedOnOthers = "changed, but not removed from every former host"
	deletedOnOthers = "not deleted from every host"
)

// cleanHosts removes the endpoint from all hosts except those in lost, in parallel. A host that
// belongs to another endpoint is not changed, and is returned. outcome is for the error.
func cleanHosts(
	ctx context.Context, s Spec, lost map[string]error, outcome string,
) (alone []string, err error) {
	var mu sync.Mutex
	err = onHosts(names(s.Hosts), func(name string) error {
		if lost[name] != nil {
			return nil
		}
		problem.Progress(ctx, "remove the endpoint from %s", name)
		output, err := s.Hosts[name].Run(ctx, clean(s))
		if err != nil {
			return &problem.Problem{
				Summary: "Endpoint " + s.Address + " " + outcome,
				Host:    s.label(name),
				Cause:   "its removal from this host has failed: " + err.Error(),
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
	return requireAbandoned(ctx, leaving, lost, s.Abandon, changedOnOthers, othersDone)
}

// othersDone is for the error of a change that was made on all other hosts.
const othersDone = "these hosts may still run HAProxy and keepalived for the address; all others are done."

// requireAbandoned returns an error if there are hosts that could not be cleaned and that the
// user has not abandoned. outcome and unchanged say what the apply has done.
func requireAbandoned(
	ctx context.Context, s Spec, lost map[string]error, abandoned host.Abandoned, outcome, unchanged string,
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
		Summary:   "Endpoint " + s.Address + " " + outcome,
		Host:      strings.Join(kept, ", "),
		Cause:     err.Error(),
		Unchanged: unchanged,
		Next:      "make them reachable and apply again, or, if they are gone for good, " + host.AbandonRemedy(addresses...),
		Err:       err,
	}
}

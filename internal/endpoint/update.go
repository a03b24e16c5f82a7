package endpoint

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

// Update re-renders and reloads what differs, one host at a time, the VIP's
// holder last; hosts in before and not in s are cleaned, hosts that are new get the backends of the others.
//
// Hosts that leave stop their keepalived first: the others will no longer
// listen to them. Hosts that are new start last: only then does the holder send
// them the advertisements that keep them from taking the address.
func Update(ctx context.Context, before, s Spec) (Status, error) {
	if err := s.validate(); err != nil {
		return Status{}, refused(s, "changed", err)
	}
	seen, err := observe(ctx, s, question(s, false))
	if err != nil {
		return Status{}, refused(s, "changed", err)
	}
	if err := strangers(s, "changed", seen); err != nil {
		return Status{}, err
	}
	leaving := left(before, s)
	reachable := reachableOf(seen)
	if len(reachable) == 0 {
		return Status{}, refused(s, "changed", unreachableOf(seen))
	}
	if err := wholly(before, s, seen); err != nil {
		return Status{}, err
	}
	if err := preflight(s, reachable); err != nil {
		return Status{}, err
	}
	if err := keepTrust(ctx, s, "changed", reachable); err != nil {
		return Status{}, err
	}
	if err := claim(ctx, s, "changed", reachable); err != nil {
		return Status{}, err
	}
	if err := installOn(ctx, s, reachable); err != nil {
		return Status{}, err
	}
	lost, err := stopLeaving(ctx, leaving)
	if err != nil {
		return Status{}, err
	}
	servers := s.servers(ctx, reachable)
	for _, name := range sequence(s, reachable) {
		if err := applyOn(ctx, s, name, reachable[name], servers[name]); err != nil {
			return Status{}, err
		}
	}
	found, err := converge(ctx, s)
	if err != nil {
		return found, err
	}
	if _, err := cleanOn(ctx, leaving, lost); err != nil {
		return found, err
	}
	return found, unchangedHosts(ctx, s, leaving, seen, lost)
}

// wholly refuses to change what the hosts have to agree on while one of them
// cannot be reached: it would hold the address by the old rules when it comes
// back. What differs from before on the others is mended without it.
func wholly(before, s Spec, seen map[string]balancer) error {
	unreachable := unreachableOf(seen)
	if unreachable == nil || s.rendersLike(before) {
		return nil
	}
	return &problem.Problem{
		Summary:   "endpoint " + s.Address + " not changed",
		Cause:     unreachable.Error(),
		Unchanged: problem.Nothing,
		Next: "make these hosts reachable and apply again; if one is gone for good, take it out of haproxy.hosts and " +
			host.AbandonRemedy(lostAddresses(s, seen)...),
		Err: unreachable,
	}
}

// lostAddresses are those of the hosts that cannot be reached.
func lostAddresses(s Spec, seen map[string]balancer) []string {
	var addresses []string
	for _, name := range names(seen) {
		if seen[name].unreachable != nil {
			addresses = append(addresses, s.Hosts[name].Address())
		}
	}
	return addresses
}

// rendersLike reports whether both give every host the same configuration.
func (s Spec) rendersLike(other Spec) bool {
	return s.Address == other.Address && s.port() == other.port() && maps.Equal(s.addresses(), other.addresses()) &&
		s.Interface == other.Interface && s.routerID() == other.routerID() && s.CACertificate == other.CACertificate
}

// left is before with only those hosts whose machines are no longer in s.
func left(before, s Spec) Spec {
	gone := before
	gone.Hosts = map[string]*host.Host{}
	stay := s.addresses()
	for name, machine := range before.Hosts {
		if !slices.ContainsFunc(names(stay), func(other string) bool { return stay[other] == machine.Address() }) {
			gone.Hosts[name] = machine
		}
	}
	return gone
}

// sequence: established hosts, the holder last of them, then new hosts.
func sequence(s Spec, seen map[string]balancer) []string {
	rank := func(name string) int {
		switch b := seen[name]; {
		case !b.unitActive(keepalivedUnit):
			return 2
		case b.holds(s.Address):
			return 1
		}
		return 0
	}
	order := names(seen)
	slices.SortStableFunc(order, func(a, b string) int { return rank(a) - rank(b) })
	return order
}

// stopLeaving takes the address from hosts that leave, and names those that
// could not be reached.
func stopLeaving(ctx context.Context, leaving Spec) (lost map[string]error, err error) {
	var mu sync.Mutex
	lost = map[string]error{}
	err = onHosts(names(leaving.Hosts), func(name string) error {
		_, err := leaving.Hosts[name].Run(ctx, host.Command{Script: ownerScript + stopScript, Vars: leaving.ownership()})
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

// cleanOn takes the endpoint off every host but those lost, in parallel. A host
// that has another endpoint by now is left alone, and told of.
func cleanOn(ctx context.Context, s Spec, lost map[string]error) (alone []string, err error) {
	var mu sync.Mutex
	err = onHosts(names(s.Hosts), func(name string) error {
		if lost[name] != nil {
			return nil
		}
		problem.Progress(ctx, "remove the endpoint from %s", name)
		output, err := s.Hosts[name].Run(ctx, clean(s))
		if err != nil {
			return &problem.Problem{
				Summary: "endpoint not removed from a host",
				Host:    s.label(name),
				Cause:   err.Error(),
				Next:    "apply again: what is removed is not removed twice",
				Err:     err,
			}
		}
		if word, rest := answer(output); word == answerOther {
			mu.Lock()
			defer mu.Unlock()
			alone = append(alone, s.label(name)+": "+strangerWords(rest)+", left alone")
		}
		return nil
	})
	slices.Sort(alone)
	for _, why := range alone {
		problem.Progress(ctx, "%s", why)
	}
	return alone, err
}

// unchangedHosts says which hosts an update could not reach.
func unchangedHosts(ctx context.Context, s, leaving Spec, seen map[string]balancer, lost map[string]error) error {
	if err := unreachableOf(seen); err != nil {
		return &problem.Problem{
			Summary:   "endpoint " + s.Address + " changed on the hosts that could be reached only",
			Cause:     err.Error(),
			Unchanged: "these hosts keep their configuration; the others have the new one and serve.",
			Next:      "make them reachable and apply again, or take them out of haproxy.hosts",
			Err:       err,
		}
	}
	return abandoned(ctx, leaving, lost, s.Abandon)
}

// abandoned refuses to forget hosts that could not be cleaned, but for those
// that the user has given up.
func abandoned(ctx context.Context, s Spec, lost map[string]error, gone host.Abandoned) error {
	var left, kept, addresses []string
	var causes []error
	for _, name := range names(lost) {
		address := s.Hosts[name].Address()
		if gone.Covers(address, lost[name]) {
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
		Summary:   "endpoint " + s.Address + " not removed from every host",
		Host:      strings.Join(kept, ", "),
		Cause:     err.Error(),
		Unchanged: "these hosts may still run HAProxy and keepalived for the address; all others are done.",
		Next:      "make them reachable and apply again, or, if they are gone for good, " + host.AbandonRemedy(addresses...),
		Err:       err,
	}
}

// onHosts runs do for every name in parallel and joins the errors in order.
func onHosts(hosts []string, do func(name string) error) error {
	failed := make([]error, len(hosts))
	var all sync.WaitGroup
	for i, name := range hosts {
		all.Go(func() { failed[i] = do(name) })
	}
	all.Wait()
	return errors.Join(failed...)
}

func reachableOf(seen map[string]balancer) map[string]balancer {
	reachable := map[string]balancer{}
	for name, b := range seen {
		if b.unreachable == nil {
			reachable[name] = b
		}
	}
	return reachable
}

package haproxy

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Update renders again and reloads what differs, one host at a time, the VIP's holder last. Hosts
// that are in before and not in s are cleaned; new hosts get the backends of the others.
//
// Hosts that leave stop their keepalived first, because the others will no longer listen to them.
// New hosts start last, because only then the holder sends them the advertisements that keep them
// from taking the address. Hosts that only records name, because their addition failed, are cleaned before anything
// else: the records forget them next. The last hosts that know the replicas do not leave. If the way in which
// advertisements are sent changes, or the virtual router, all hosts but the holder stop and start again in the same
// way.
func Update(ctx context.Context, before, s Spec) (endpoint.Status, error) {
	if err := s.validate(); err != nil {
		return endpoint.Status{}, refusedError(s, "changed", err)
	}
	u, err := observeToUpdate(ctx, before, s)
	if err != nil {
		return endpoint.Status{}, err
	}
	if _, err := cleanHosts(ctx, u.former.Spec, u.former.lost, notChanged); err != nil {
		return endpoint.Status{}, err
	}
	if err := claim(ctx, s, "changed", u.reachable, u.former.remaining()); err != nil {
		return endpoint.Status{}, err
	}
	if err := installOn(ctx, s, u.reachable); err != nil {
		return endpoint.Status{}, err
	}
	return u.apply(ctx)
}

// observedUpdate is what was observed before an update, which nothing refuses.
type observedUpdate struct {
	spec            Spec // as wanted
	seen, reachable map[string]balancer
	leaving         Spec // the hosts that leave
	gone            map[string]balancer
	former          forgotten
}

// observeToUpdate observes all hosts and refuses the update if anything prevents it. It changes nothing.
func observeToUpdate(ctx context.Context, before, s Spec) (u observedUpdate, err error) {
	u.spec = s
	if u.seen, err = observe(ctx, s, updateQuery(before, s)); err != nil {
		return u, refusedError(s, "changed", err)
	}
	if err := refuseOtherEndpoints(s, "changed", u.seen); err != nil {
		return u, err
	}
	u.leaving = leavingHosts(before, s, u.seen)
	u.reachable = reachableOf(u.seen)
	if len(u.reachable) == 0 {
		return u, refusedError(s, "changed", unreachableOf(u.seen))
	}
	if u.former, err = forgottenHosts(ctx, s, u.leaving, u.reachable); err != nil {
		return u, refusedError(s, "changed", err)
	}
	if err := checkUpdate(ctx, before, s, u.seen, u.leaving, u.former.Spec); err != nil {
		return u, err
	}
	u.gone, err = observeLeaving(ctx, s, u.leaving, u.reachable)
	return u, err
}

// updateQuery asks for what an update needs to know of a host.
func updateQuery(before, s Spec) host.Query {
	adding := slices.ContainsFunc(s.vips(), func(address string) bool { return !slices.Contains(before.vips(), address) })
	query := balancerQuery(s, adding || before.HandOver != "" || s.HandOver != "")
	if before.Inherit && !s.Inherit {
		addFormer(&query)
	}
	return query
}

// apply stops the hosts that leave, configures the others, and cleans those that have left.
func (u observedUpdate) apply(ctx context.Context) (endpoint.Status, error) {
	lost, err := stopLeavingHosts(ctx, u.leaving, u.gone)
	if err != nil {
		return endpoint.Status{}, err
	}
	observed, err := configure(ctx, u.spec, u.reachable)
	if err != nil {
		return observed, err
	}
	if _, err := cleanHosts(ctx, u.leaving, lost, changedOnOthers); err != nil {
		return observed, err
	}
	if err := unchangedHosts(ctx, u.spec, u.leaving, u.seen, lost); err != nil {
		return observed, err
	}
	return observed, requireAbandoned(ctx, u.former.Spec, u.former.lost, u.spec.Abandon, changedOnOthers, othersDone)
}

// checkUpdate refuses an update before anything is changed. gone are the hosts that the endpoint will no longer have.
func checkUpdate(ctx context.Context, before, s Spec, seen map[string]balancer, gone ...Spec) error {
	if err := requireAllHosts(before, s, seen); err != nil {
		return err
	}
	reachable := reachableOf(seen)
	if err := refuseStep(ctx, before, s, reachable, gone...); err != nil {
		return err
	}
	if err := preflight(s, reachable); err != nil {
		return err
	}
	if err := checkTakeOver(ctx, s, reachable); err != nil {
		return err
	}
	if err := checkBarriers(ctx, s, "changed", reachable); err != nil {
		return err
	}
	return checkTrust(ctx, s, "changed", reachable)
}

// configure configures the hosts that can be reached, in the order of Update, and waits until the endpoint is healthy.
func configure(ctx context.Context, s Spec, seen map[string]balancer) (endpoint.Status, error) {
	seen, err := stopToSwitch(ctx, s, seen)
	if err != nil {
		return endpoint.Status{}, err
	}
	servers := s.servers(ctx, seen)
	for _, group := range updateOrder(s, seen) {
		err := onHosts(group, func(name string) error { return applyOn(ctx, s, name, seen[name], servers[name]) })
		if err != nil {
			return endpoint.Status{}, err
		}
	}
	if err := inherit(ctx, s, seen); err != nil {
		return endpoint.Status{}, err
	}
	return converge(ctx, s)
}

// refuseStep refuses to let go of an address that the endpoint has, and to forget services that could have it.
func refuseStep(ctx context.Context, before, s Spec, seen map[string]balancer, gone ...Spec) error {
	if err := errors.Join(refuseToWait(s, seen), refuseFormer(before, s, seen)); err != nil {
		return err
	}
	if before.Inherit || s.Inherit {
		for _, hosts := range gone {
			if err := refuseLeaving(s, hosts, observeAll(ctx, hosts, formerQuery())); err != nil {
				return err
			}
		}
	}
	return nil
}

// requireAllHosts refuses a change that all hosts must agree on while one of them cannot be
// reached: that host would have the address with the old configuration when it comes back. Drift
// on the other hosts is repaired nevertheless. An address that moves is such a change when it is given
// up, or taken from the hosts' own services. In the other steps, the host waits for it when it comes back, and the plan
// shows that.
func requireAllHosts(before, s Spec, seen map[string]balancer) error {
	unreachable := unreachableOf(seen)
	moving := s.waits() && !before.waits() || s.Inherit || before.Inherit
	if unreachable == nil || s.rendersLike(before) && !moving {
		return nil
	}
	return &problem.Problem{
		Summary:   "Endpoint " + s.Address + " not changed",
		Cause:     unreachable.Error(),
		Unchanged: problem.Nothing,
		Next: "make these hosts reachable and apply again; if one is gone for good, take it out of haproxy.hosts and " +
			host.AbandonRemedy(lostAddresses(s, seen)...),
		Err: unreachable,
	}
}

// lostAddresses returns the addresses of the hosts that cannot be reached.
func lostAddresses(s Spec, seen map[string]balancer) []string {
	var addresses []string
	for _, name := range names(seen) {
		if seen[name].unreachable != nil {
			addresses = append(addresses, s.Hosts[name].Address())
		}
	}
	return addresses
}

// rendersLike reports whether both render the same configuration for every host.
func (s Spec) rendersLike(other Spec) bool {
	return slices.Equal(s.vips(), other.vips()) && s.port() == other.port() &&
		maps.Equal(s.addresses(), other.addresses()) && s.Interface == other.Interface &&
		s.routerID() == other.routerID() && s.CACertificate == other.CACertificate && s.multicast() == other.multicast()
}

// updateOrder returns the established hosts, each alone, the VIP's holder last, then each new host. If the endpoint is
// on none, all of them begin together.
func updateOrder(s Spec, seen map[string]balancer) [][]string {
	order := names(seen)
	if !anyInstalled(seen) {
		return [][]string{order}
	}
	rank := func(name string) int {
		switch b := seen[name]; {
		case !b.unitActive(keepalivedUnit):
			return 2
		case b.holdsVIP(s.Address):
			return 1
		}
		return 0
	}
	slices.SortStableFunc(order, func(a, b string) int { return rank(a) - rank(b) })
	return slices.Collect(slices.Chunk(order, 1))
}

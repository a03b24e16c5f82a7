package haproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// When the address may be taken from the hosts' own services, and when it no longer may be left to them.

// ValidateInherit returns an error if no step takes the address from the hosts' own services.
func ValidateInherit(inherit bool, handOver string) error {
	if inherit && handOver != Prepare && handOver != Take {
		return fmt.Errorf("inherit is for hand_over = %q and %q", Prepare, Take)
	}
	return nil
}

// inheritProblems describes why the address cannot be taken from a machine's services.
func inheritProblems(s Spec, b balancer) []string {
	var reasons []string
	f := parseFormer(b.facts.Files[formerKeepalivedPath].Content)
	if b.formerRuns() && f.includes {
		reasons = append(reasons, formerKeepalivedPath+" includes other files, which may name more addresses: put "+
			"everything into one file")
	}
	if b.formerGives(s) {
		if len(f.more) > 0 {
			reasons = append(reasons, fmt.Sprintf("%s has more than addresses (%s), which would end: let another service do "+
				"that", formerKeepalivedUnit, strings.Join(f.more, ", ")))
		}
		for _, ip := range f.addresses {
			if !slices.Contains(s.vips(), ip.String()) {
				reasons = append(reasons, fmt.Sprintf("%s also has %s, which would be lost: name it in "+
					"haproxy.additional_addresses, or let another service have it", formerKeepalivedUnit, ip))
			}
		}
		if slices.Contains(f.routerIDs, s.routerID()) {
			reasons = append(reasons, fmt.Sprintf("%s has the VRRP router id %d too: set haproxy.virtual_router_id to "+
				"another one", formerKeepalivedUnit, s.routerID()))
		}
	}
	if b.formerListener(s) && !b.formerNames(s.port()) {
		reasons = append(reasons, fmt.Sprintf("HAProxy listens on port %d, which is not in %s: only a HAProxy with that "+
			"file can be taken over", s.port(), formerHAProxyPath))
	}
	if more := b.formerServesMore(s); b.formerBalances(s) && len(more) > 0 {
		reasons = append(reasons, fmt.Sprintf("%s serves more than this endpoint (%s), and would end: let another service "+
			"do that", formerHAProxyUnit, strings.Join(more, ", ")))
	}
	return reasons
}

// inheritDrift describes former services that have not given the address to the endpoint.
func inheritDrift(s Spec, b balancer) []string {
	if !s.inherits() {
		return nil
	}
	var differences []string
	if b.formerGives(s) {
		differences = append(differences, formerKeepalivedUnit+" still runs or starts with the machine")
	}
	if b.formerBalances(s) {
		differences = append(differences, formerHAProxyUnit+" still takes connections or starts with the machine")
	}
	return differences
}

// checkInherit refuses to take the address from services that do not have it, or that serve another cluster there, and
// to give it to a HAProxy that does not serve this one.
func checkInherit(ctx context.Context, s Spec, seen map[string]balancer) error {
	if err := refuseToReturn(s, seen); err != nil {
		return err
	}
	at := slices.DeleteFunc(holders(s.Address, seen), func(name string) bool { return !seen[name].formerGives(s) })
	if len(at) == 0 {
		elects := func(name string) bool { return seen[name].elects() }
		if s.inherits() && slices.ContainsFunc(holders(s.Address, seen), elects) {
			return nil // the endpoint has it: an apply that was cut off goes on
		}
		return notInheritedError(s, "", "none of the hosts has the address by "+formerKeepalivedUnit+" and "+
			formerKeepalivedPath, "remove haproxy.inherit, or apply again if the address has just moved")
	}
	target, err := netip.ParseAddrPort(net.JoinHostPort(s.Address, strconv.Itoa(s.port())))
	if err != nil {
		return refusedError(s, "changed", err)
	}
	chain, err := certificateOf(ctx, s.Hosts[at[0]], target)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if reason := foreign(s.Address, s.Authorities, chain, err, time.Now()); reason != "" {
		return notInheritedError(s, at[0], "what serves the address is not this control plane: "+reason,
			"add this endpoint while the replicas are registered at an endpoint with the same address (external)")
	}
	if !s.inherits() {
		return nil
	}
	return errors.Join(checkTogether(s, at[0], seen), checkReplicas(s, seen))
}

// checkTogether refuses if one machine would take addresses while another one has them.
func checkTogether(s Spec, leader string, seen map[string]balancer) error {
	for _, address := range s.vips() {
		for _, name := range holders(address, seen) {
			if name != leader && !seen[leader].holdsVIP(address) {
				return notInheritedError(s, name, fmt.Sprintf("%s is there, and %s on %s", address, s.Address, leader),
					"restart "+formerKeepalivedUnit+" on one of them, so that one machine has all addresses, and apply again")
			}
		}
	}
	return nil
}

// checkReplicas refuses to give the address to a HAProxy that reaches no replica.
func checkReplicas(s Spec, seen map[string]balancer) error {
	for _, name := range names(seen) {
		if len(seen[name].servers) == 0 {
			return notInheritedError(s, name, "no replica is registered there: clients would lose the API",
				fmt.Sprintf("set hand_over = %q first, and list the endpoint in additional_endpoints of every replica", Prepare))
		}
		if !slices.ContainsFunc(seen[name].stats, stat.up) {
			return notInheritedError(s, name, "HAProxy of the endpoint reaches no replica from there: clients would lose "+
				"the API", "look at `journalctl -u "+haproxyUnit+"` there, and apply again when a replica is up")
		}
	}
	return nil
}

// refuseToReturn refuses to leave the address to services that have begun to give it to the endpoint: they would not
// start with the machine.
func refuseToReturn(s Spec, seen map[string]balancer) error {
	begun := slices.DeleteFunc(names(seen), func(name string) bool { return !seen[name].handsOver() })
	if !s.prepares() || len(begun) == 0 {
		return nil
	}
	return notInheritedError(s, begun[0], "the former services have begun to give the address to the endpoint",
		fmt.Sprintf("set hand_over = %q, which completes it", Take))
}

// refuseLeaving refuses to forget hosts whose former services could still have the address: nobody would end them.
func refuseLeaving(s, leaving Spec, seen map[string]balancer) error {
	for _, name := range names(seen) {
		b := seen[name]
		if b.unreachable != nil && !s.Abandon.Covers(leaving.Hosts[name].Address(), b.unreachable) {
			return notInheritedError(leaving, name, "it leaves the endpoint, and whether it could still take the address is "+
				"not known: "+b.unreachable.Error(), "make it reachable and apply again; if it is gone for good, "+
				host.AbandonRemedy(leaving.Hosts[name].Address()))
		}
		if b.unreachable == nil && b.formerGives(s) {
			return notInheritedError(leaving, name, "it leaves the endpoint, and its "+formerKeepalivedUnit+" could still take "+
				"the address", "run `systemctl disable --now "+formerKeepalivedUnit+"` there, or keep the host until the "+
				"takeover is complete")
		}
	}
	return nil
}

// refuseFormer refuses to forget services that could still have the address.
func refuseFormer(before, s Spec, seen map[string]balancer) error {
	if !before.Inherit || s.Inherit {
		return nil
	}
	var still []string
	for _, name := range names(seen) {
		for _, what := range inheritDrift(Spec{
			Address: s.Address, Address6: s.Address6, Further: s.Further, Port: s.Port, Inherit: true, HandOver: Take,
		}, seen[name]) {
			still = append(still, name+": "+what)
		}
	}
	if len(still) == 0 {
		return nil
	}
	next := fmt.Sprintf("apply inherit with hand_over = %q", Take)
	if !slices.ContainsFunc(names(seen), func(name string) bool { return seen[name].handsOver() }) {
		next += "; to give the takeover up, destroy this endpoint, which leaves the former services as they are"
	}
	return &problem.Problem{
		Summary: "Endpoint " + s.Address + " not changed", Attribute: "haproxy.inherit",
		Cause:     "the former services could still have the address, see below",
		Unchanged: problem.Nothing,
		Next:      next,
		Detail:    "  " + strings.Join(still, "\n  "),
	}
}

// notInheritedError is the error of a takeover that has changed nothing.
func notInheritedError(s Spec, name, cause, next string) error {
	p := &problem.Problem{
		Summary: "Endpoint " + s.Address + " not taken over", Attribute: "haproxy.inherit", Cause: cause,
		Unchanged: problem.Nothing, Next: next,
	}
	if name != "" {
		p.Host = s.label(name)
	}
	return p
}

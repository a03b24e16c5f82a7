package haproxy

import (
	"context"
	_ "embed"
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

//go:embed inherit.sh
var inheritScript host.Script

// preparedBind is where HAProxy listens before it may serve the virtual IPs, whose clients it would take from the
// former HAProxy before it has a replica.
const preparedBind = runDir + "/prepared.sock"

// prepares reports whether the former services have the address, and nothing of them changes.
func (s Spec) prepares() bool { return s.Inherit && s.HandOver == Prepare }

// inherits reports whether the former services give the address to the endpoint.
func (s Spec) inherits() bool { return s.Inherit && s.HandOver == Take }

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
	if b.formerGives(s) {
		if f.includes {
			reasons = append(reasons, formerKeepalivedPath+" includes other files, which may name more addresses: put "+
				"everything into one file")
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
	if proxies := b.formerProxies(); b.formerBalances(s) && len(proxies) > 1 {
		reasons = append(reasons, fmt.Sprintf("%s serves more than this endpoint (%s), and would end: let another service "+
			"do that", formerHAProxyUnit, strings.Join(proxies, ", ")))
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
	at := slices.DeleteFunc(holders(s.Address, seen), func(name string) bool { return !seen[name].formerGives(s) })
	if len(at) == 0 {
		if s.inherits() && len(holders(s.Address, seen)) > 0 {
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
	if s.inherits() {
		return checkReplicas(s, seen)
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

// inherit moves the address from the hosts' former keepalived to the endpoint's. The machine that has it keeps it: the
// endpoint's keepalived becomes the master beside the former one, which is killed, and so cannot remove it, when the
// other machines follow the endpoint's. Each step is done once, and does nothing when it is repeated.
func inherit(ctx context.Context, s Spec, seen map[string]balancer) error {
	if !s.inherits() {
		return nil
	}
	holder := leads(s, seen)
	others := slices.DeleteFunc(names(seen), func(name string) bool { return name == holder })
	if holder == "" {
		return partlyInheritedError(s, "", errors.New("no host has the address any more"))
	}
	steps := []inheritStep{{holder, "lead"}}
	for _, name := range others {
		steps = append(steps, inheritStep{name, "follow"})
	}
	steps = append(steps, inheritStep{holder, "end"})
	for _, name := range append(others, holder) {
		steps = append(steps, inheritStep{name, "retire"})
	}
	for _, step := range steps {
		problem.Progress(ctx, "endpoint %s: %s: %s", s.Address, step.host, stepTexts[step.name])
		b := seen[step.host]
		output, err := s.Hosts[step.host].Run(ctx, host.Command{
			Script: withOwner(inheritScript), Vars: with(s.ownerVars(), map[string]string{
				"step": step.name, "entries": strings.Join(s.entries(), " "), "device": b.device,
				"gives": yes(b.formerGives(s)), "balances": yes(b.formerBalances(s)),
			}),
		})
		if err = errors.Join(err, checkOwner(output)); err != nil {
			return partlyInheritedError(s, step.host, err)
		}
	}
	return nil
}

// inheritStep is a step of inherit.sh on a host.
type inheritStep struct{ host, name string }

// stepTexts describe the steps.
var stepTexts = map[string]string{
	"lead":   "keepalived of the endpoint becomes the master",
	"follow": "keepalived of the endpoint follows it",
	"end":    "the former keepalived ends, and leaves the address",
	"retire": "the former HAProxy takes no more connections",
}

// entries returns the virtual IPs as the endpoint's keepalived adds them.
func (s Spec) entries() []string {
	var all []string
	for _, address := range s.vips() {
		all = append(all, s.entry(address))
	}
	return all
}

// leads returns the host that has the address, or "". If an apply was cut off, and the former services have moved the
// address meanwhile, or were started again, that is the one whose keepalived of the endpoint has it.
func leads(s Spec, seen map[string]balancer) string {
	byFormer := func(name string) int {
		rank := 0
		if file := seen[name].facts.Files[waitingPath]; file.SHA256 == sha256Hex([]byte(waitingText)) {
			rank += 2
		}
		if seen[name].formerGives(s) {
			rank++
		}
		return rank
	}
	have := holders(s.Address, seen)
	slices.SortStableFunc(have, func(a, b string) int { return byFormer(a) - byFormer(b) })
	return append(have, "")[0]
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return ""
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

// partlyInheritedError is the error of a takeover that the next apply completes.
func partlyInheritedError(s Spec, name string, err error) error {
	p := &problem.Problem{
		Summary: "Endpoint " + s.Address + " not taken over yet", Attribute: "haproxy.inherit", Cause: err.Error(), Err: err,
		Unchanged: "the former services of the hosts that come later, and the replicas.",
		Next:      "correct this and apply again: it goes on where it stopped",
	}
	if name != "" {
		p.Host = s.label(name)
	}
	return p
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
	return &problem.Problem{
		Summary: "Endpoint " + s.Address + " not changed", Attribute: "haproxy.inherit",
		Cause:     "the former services could still have the address, see below",
		Unchanged: problem.Nothing,
		Next: fmt.Sprintf("apply inherit with hand_over = %q; to give the takeover up, destroy this endpoint, which leaves "+
			"the former services as they are", Take),
		Detail: "  " + strings.Join(still, "\n  "),
	}
}

package haproxy

import (
	"context"
	_ "embed"
	"errors"
	"slices"
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

// inherit moves the address from the hosts' former keepalived to the endpoint's. The machine that has the
// address keeps it. There, the endpoint's keepalived becomes master while the former one still runs. Once the other
// machines follow the endpoint's keepalived, the former one is killed with SIGKILL, so that it cannot remove the
// address. Each step is done once, and does nothing when it is repeated.
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
	return alone(ctx, s, seen)
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
		if seen[name].waits() {
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

// claimTime is how long a keepalived with the usual interval of a second waits before it takes an address whose
// holder is silent: three intervals and less than one.
const claimTime = 4 * time.Second

// alone returns an error if a machine outside of the endpoint has the address, because its former keepalived hears
// nobody any more.
func alone(ctx context.Context, s Spec, seen map[string]balancer) error {
	if !slices.ContainsFunc(names(seen), func(name string) bool { return seen[name].formerGives(s) }) {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(claimTime):
	}
	now, err := observe(ctx, s, balancerQuery(s, true))
	if err != nil {
		return partlyInheritedError(s, "", err)
	}
	for _, address := range s.vips() {
		if who := elsewhere(s, address, now); len(who) > 0 {
			return partlyInheritedError(s, "", errors.New(who[0]))
		}
	}
	return nil
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return ""
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

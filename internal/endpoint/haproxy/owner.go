package haproxy

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/packages"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

var (
	//go:embed owner.sh
	ownerScript host.Script
	//go:embed claim.sh
	claimScript host.Script
	//go:embed release.sh
	releaseScript host.Script
	//go:embed clean.sh
	cleanScript host.Script
)

// The answers of scripts that check the owner.
const (
	answerOther   = "other" // it belongs to another endpoint, whose record follows
	answerClaimed = "claimed"
	answerOwned   = "ours"
)

// owner is the endpoint that a machine belongs to.
type owner struct {
	ClusterID   string // "" if an earlier version created it
	ClusterName string
	Address     string
}

func (o owner) String() string {
	if o.ClusterID == "" {
		return "the endpoint " + o.Address
	}
	return fmt.Sprintf("the endpoint %s of cluster %s (id %s)", o.Address, o.ClusterName, o.ClusterID)
}

// ownerOf returns the owner in the record, or, if an earlier version created the endpoint, the
// one that follows from the rendered files.
func ownerOf(recorded *record, rendered string) owner {
	var o owner
	if recorded != nil {
		o = owner{recorded.ClusterID, recorded.ClusterName, recorded.Address}
	}
	if o.Address == "" {
		bind := append(bindLine.FindStringSubmatch(rendered), "", "")[1]
		if at, err := netip.ParseAddrPort(bind); err == nil {
			o.Address = at.Addr().String()
		}
	}
	return o
}

// owns reports whether a machine with that owner may be changed for s: it has no owner, s owns
// it, or an earlier version created an endpoint with the same address on it.
func (s Spec) owns(o owner) bool {
	if o == (owner{}) {
		return true
	}
	sameCluster := o.ClusterID == "" || s.ClusterID == "" || o.ClusterID == s.ClusterID
	return sameCluster && (o.Address == "" || o.Address == s.Address)
}

// ownerVars returns the variables of endpoint.OwnerFunctions. A balancer is no machine of a replica.
func (s Spec) ownerVars() map[string]string {
	return map[string]string{"cluster": s.ClusterID, "vip": s.Address, "replica": ""}
}

// with adds variables to others.
func with(vars, more map[string]string) map[string]string {
	all := maps.Clone(vars)
	maps.Copy(all, more)
	return all
}

// refuseOtherEndpoints refuses hosts that belong to another endpoint, in one error.
func refuseOtherEndpoints(s Spec, what string, seen map[string]balancer) error {
	var lines []string
	for _, name := range names(seen) {
		if b := seen[name]; b.otherEndpoint != "" {
			lines = append(lines, s.label(name)+": "+b.otherEndpoint)
		}
	}
	return s.otherEndpointsError(what, lines)
}

func (s Spec) otherEndpointsError(what string, lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	return &problem.Problem{
		Summary:   "Endpoint " + s.Address + " not " + what,
		Attribute: "haproxy.hosts",
		Cause:     "hosts belong to another endpoint, see below: it would lose its address and its replicas",
		Unchanged: problem.Nothing,
		Next: "use other hosts for this one; " + endpoint.OtherHint + ", or, if that cluster is gone for good, run on the " +
			"host: systemctl disable --now " + keepalivedUnit + " " + haproxyUnit + "; rm -r " + configDir,
		Detail: "  " + strings.Join(lines, "\n  "),
	}
}

// claim writes the record with the owner on every host, in the order of their addresses, before
// any other file. If two endpoints claim the same host, one is refused and releases its
// claims. leaving are addresses that a record which names them goes on naming. No machine is told what only another one
// has said.
func claim(ctx context.Context, s Spec, what string, seen map[string]balancer, leaving []string) error {
	order := names(seen)
	slices.SortFunc(order, func(a, b string) int { return strings.Compare(s.Hosts[a].Address(), s.Hosts[b].Address()) })
	var claimed []string
	for _, name := range order {
		named := slices.DeleteFunc(s.unlisted(seen[name]), func(at string) bool { return !slices.Contains(leaving, at) })
		output, err := s.Hosts[name].Run(ctx, host.Command{
			Script: withOwner(claimScript), Vars: with(s.ownerVars(), map[string]string{"record": recordText(s, named...)}),
		})
		word, rest := answer(output)
		switch {
		case err != nil:
			err = fmt.Errorf("claim host %s: %w", s.label(name), err)
		case word == answerOther:
			err = s.otherEndpointsError(what, []string{s.label(name) + ": " + describeOwner(rest)})
		case word == answerClaimed:
			claimed = append(claimed, name)
		case word != answerOwned:
			err = fmt.Errorf("claim host %s: unexpected answer %q", s.label(name), word)
		}
		if err != nil {
			return release(ctx, s, claimed, err)
		}
	}
	return nil
}

// releaseTimeout limits release, whose caller may have been cancelled.
const releaseTimeout = 10 * time.Second

// release removes the claims on hosts that have no other file of the endpoint. It returns the
// given reason.
func release(ctx context.Context, s Spec, claimed []string, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	err := onHosts(claimed, func(name string) error {
		_, err := s.Hosts[name].Run(ctx, host.Command{Script: withOwner(releaseScript), Vars: s.ownerVars()})
		return err
	})
	if err != nil { // then a host was changed
		return fmt.Errorf("%s\nReleasing the claim on %s failed: %w", why.Error(), strings.Join(claimed, ", "), err)
	}
	return why
}

// describeOwner describes the owner in the text of a record.
func describeOwner(text string) string {
	o := ownerOf(readRecord(text), "")
	if o.Address == "" {
		return "the machine belongs to another endpoint"
	}
	return "the machine belongs to " + o.String()
}

// errOther is the error of a balancer that belongs to another endpoint.
var errOther = errors.New("it belongs to another endpoint")

// checkOwner turns a script's answer "other" into an error.
func checkOwner(output string) error {
	if word, rest := answer(output); word == answerOther {
		return fmt.Errorf("%w: %s", errOther, describeOwner(rest))
	}
	return nil
}

// withOwner returns a script that can use endpoint.OwnerFunctions and host.FlushFunction.
func withOwner(script host.Script) host.Script {
	return ownerScript + endpoint.OwnerFunctions() + host.FlushFunction() + script
}

// clean returns the command that removes the endpoint from the machine, with the packages that
// were installed for it, unless the machine belongs to another endpoint.
func clean(s Spec) host.Command {
	removal := packages.HAProxy().WithRemoval(cleanScript, s.ownerVars())
	return host.Command{Script: withOwner(removal.Script), Vars: removal.Vars}
}

package etcd

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/connections"
	"github.com/kubequorum/terraform-provider-kube/internal/firewall"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// checkConnections returns an error for each of specs if a connection that their members need is closed
// between two machines, one of which is still empty. All are refused together: a cluster of those that
// reach each other would have fewer members than are wanted. One whose sshd forbids that its member is asked is refused
// alone.
func (cl *cluster) checkConnections(ctx context.Context, specs map[string]Spec, s observation) map[string]error {
	refused := cl.checkForwarding(ctx, specs)
	specs = maps.Clone(specs)
	maps.DeleteFunc(specs, func(name string, _ Spec) bool { return refused[name] != nil })
	sides := map[netip.Addr]connections.Side{}
	liveness := false
	for _, spec := range specs {
		liveness = liveness || spec.LivenessProbe
		for _, h := range append(peersOf(spec), spec.Host) {
			address, err := netip.ParseAddr(h.Address())
			observed, known := s.machines[h.Address()]
			if err != nil || !known || !observed.Reached() {
				continue
			}
			_, isNew := specs[observed.Name]
			sides[address] = connections.Side{Machine: cl.machine(h), Bare: isNew && observed.Empty()}
		}
	}
	closed := connections.Check(ctx, memberRules(sides, liveness), sides)
	for name, spec := range specs {
		if len(closed) > 0 {
			refused[name] = closedError(spec, closed)
		}
	}
	return refused
}

func peersOf(s Spec) []*host.Host {
	var all []*host.Host
	for _, h := range s.Peers {
		all = append(all, h)
	}
	return all
}

// memberRules returns what members accept from each other.
func memberRules(sides map[netip.Addr]connections.Side, liveness bool) []firewall.Rule {
	site := firewall.Site{Machines: map[firewall.Role][]netip.Addr{}}
	for address := range sides {
		site.Machines[firewall.Members] = append(site.Machines[firewall.Members], address)
	}
	return slices.DeleteFunc(site.Between(), func(r firewall.Rule) bool { return r.Name == "etcd-health" && !liveness })
}

// closedError is the refusal of one member. It names what concerns its machine, or else everything.
func closedError(s Spec, closed []connections.Closed) error {
	own := slices.DeleteFunc(slices.Clone(closed), func(c connections.Closed) bool {
		return c.Machine.String() != s.Host.Address() && c.Remote.Addr().String() != s.Host.Address()
	})
	cause := "connections that members need are closed between its machine and others"
	if len(own) == 0 {
		own, cause = closed, "connections that members need are closed between machines of its cluster"
	}
	var lines []string
	for _, c := range own {
		lines = append(lines, c.String())
	}
	return &problem.Problem{
		Summary: "etcd member not created: closed connections", Host: s.Label(), Cause: cause, Unchanged: problem.Nothing,
		Next: connections.Next, Detail: "  " + strings.Join(lines, "\n  "),
	}
}

package haproxy

import (
	"context"
	"net/netip"

	"github.com/kubequorum/terraform-provider-kube/internal/connections"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/firewall"
)

// checkConnections refuses hosts on which nothing of the endpoint is, and whose port the others do not
// reach, or that do not reach that of the others. VRRP has no connections that could be tried.
func checkConnections(ctx context.Context, s Spec, seen map[string]balancer) error {
	sides := map[netip.Addr]connections.Side{}
	site := firewall.Site{
		Endpoint: string(endpoint.HAProxy), Machines: map[firewall.Role][]netip.Addr{},
		Ports: map[firewall.Setting]int{firewall.EndpointPort: s.port()},
	}
	for name, b := range reachableOf(seen) {
		address, err := netip.ParseAddr(s.Hosts[name].Address())
		if err != nil {
			continue
		}
		_, taken := b.facts.Listeners[s.port()]
		sides[address] = connections.Side{
			Machine: connections.SSH{Host: s.Hosts[name]}, Bare: !b.installed() && !taken,
		}
		site.Machines[firewall.Balancers] = append(site.Machines[firewall.Balancers], address)
	}
	var lines []string
	for _, c := range connections.Check(ctx, site.Between(), sides) {
		lines = append(lines, c.String())
	}
	if len(lines) == 0 {
		return nil
	}
	return unsuitable(s, lines, seen)
}

package haproxy

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/connections"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/firewall"
)

// checkConnections refuses hosts on which nothing of the endpoint is, and whose port the others do not
// reach, or that do not reach that of the others, and hosts that do not hear each other's VRRP. What is sent by
// multicast is not tried.
func checkConnections(ctx context.Context, s Spec, seen map[string]balancer) error {
	sides, hearing := map[netip.Addr]connections.Side{}, map[netip.Addr]connections.VRRPSide{}
	for name, b := range reachableOf(seen) {
		address, err := netip.ParseAddr(s.Hosts[name].Address())
		if err != nil {
			continue
		}
		_, taken := b.facts.Listeners[s.port()]
		machine, bare := connections.SSH{Host: s.Hosts[name]}, !b.installed()
		sides[address] = connections.Side{Machine: machine, Bare: bare && !taken}
		if !s.multicast() {
			hearing[address] = connections.VRRPSide{Peer: machine, Bare: bare}
		}
	}
	site := siteOf(s, slices.Collect(maps.Keys(sides)))
	var silent []connections.Closed
	var tried sync.WaitGroup
	tried.Go(func() { silent = connections.CheckVRRP(ctx, site.VRRPBetween(), hearing) })
	closed := connections.Check(ctx, site.Between(), sides)
	tried.Wait()
	var lines []string
	for _, c := range append(closed, silent...) {
		lines = append(lines, c.String())
	}
	if len(lines) == 0 {
		return nil
	}
	return unsuitable(s, lines, seen)
}

// siteOf returns the hosts of the endpoint at these addresses as what a firewall knows.
func siteOf(s Spec, hosts []netip.Addr) firewall.Site {
	return firewall.Site{
		Endpoint: string(endpoint.HAProxy), Machines: map[firewall.Role][]netip.Addr{firewall.Balancers: hosts},
		Ports: map[firewall.Setting]int{firewall.EndpointPort: s.port()},
	}
}

// missingVRRP returns the rules of which one is missing if these hosts, which all have the address, do not hear each
// other.
func missingVRRP(s Spec, holders []string) []string {
	var addresses []netip.Addr
	for _, name := range holders {
		if address, err := netip.ParseAddr(s.Hosts[name].Address()); err == nil {
			addresses = append(addresses, address)
		}
	}
	var lines []string
	for _, r := range siteOf(s, addresses).VRRPBetween() {
		lines = append(lines, r.Missing())
	}
	return lines
}

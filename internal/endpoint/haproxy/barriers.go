package haproxy

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/host/barrier"
)

// booleanOfHAProxy is the boolean with which SELinux's policies that know HAProxy let it use all ports.
const booleanOfHAProxy = "haproxy_connect_any"

// checkBarriers refuses hosts that have no running endpoint, and on which clients would not reach
// HAProxy, another host would not be heard by keepalived, or HAProxy could not use its ports.
func checkBarriers(ctx context.Context, s Spec, what string, seen map[string]balancer) error {
	var (
		mu      sync.Mutex
		reasons = map[string][]string{}
	)
	err := onHosts(names(seen), func(name string) error {
		b := seen[name]
		if b.unreachable != nil || b.unitActive(haproxyUnit) && b.unitActive(keepalivedUnit) {
			return nil
		}
		problems, err := barrier.Problems(ctx, s.Hosts[name], barrier.Needs{
			Openings: openings(s, name), Boolean: booleanOfHAProxy, Labelled: s.port(),
		})
		if err != nil {
			return fmt.Errorf("endpoint host %s: %w", s.label(name), err)
		}
		mu.Lock()
		defer mu.Unlock()
		reasons[name] = problems
		return nil
	})
	if err != nil {
		return refusedError(s, what, err)
	}
	var lines []string
	for _, name := range names(seen) {
		for _, reason := range reasons[name] {
			lines = append(lines, name+" ("+s.Hosts[name].Address()+"): "+reason)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return unsuitable(s, lines, seen)
}

// openings is what clients, and keepalived of the other hosts, send to a host.
func openings(s Spec, name string) []barrier.Opening {
	all := []barrier.Opening{{Protocol: "tcp", Port: s.port()}}
	if s.Konnectivity != nil {
		all = append(all, barrier.Opening{Protocol: "tcp", Port: s.Konnectivity.Port})
	}
	var others []netip.Addr
	for other, h := range s.Hosts {
		if address, err := netip.ParseAddr(h.Address()); err == nil && other != name {
			others = append(others, address)
		}
	}
	if len(others) > 0 {
		all = append(all, barrier.Opening{Protocol: barrier.VRRP, From: others})
	}
	return all
}

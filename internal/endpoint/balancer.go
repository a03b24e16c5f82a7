package endpoint

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// balancer is the observed state of one machine of the endpoint.
type balancer struct {
	unreachable   error // not nil: nothing else is known
	facts         host.Facts
	otherEndpoint string       // describes the other endpoint that the machine belongs to: nothing below is known then
	owner         owner        // whose it is
	device        string       // interface of the VIP; "" when none was found
	local         []netip.Addr // the machine's addresses
	vipMAC        string       // hardware address of who answers for the VIP on the network; "" unless probed
	backends                   // of 20-backends.cfg
	stats         []stat       // of the running HAProxy; nil when it does not answer
	unexpected    []string     // names in its statistics that registration does not give
	answers       bool         // HAProxy's socket does
}

func (b balancer) holdsVIP(vip string) bool {
	for _, ip := range b.local {
		if ip.String() == vip {
			return true
		}
	}
	return false
}

// installed: something of the endpoint is on the machine.
func (b balancer) installed() bool {
	if b.otherEndpoint != "" {
		return false
	}
	for _, path := range []string{
		endpointPath, backendsPath, keepalivedPath, unitDir + haproxyUnit,
		unitDir + keepalivedUnit,
	} {
		if _, ok := b.facts.Files[path]; ok {
			return true
		}
	}
	return b.unitActive(haproxyUnit) || b.unitActive(keepalivedUnit)
}

func (b balancer) unitActive(unit string) bool {
	switch b.facts.Units[unit].Active {
	case "active", "reloading":
		return true
	}
	return false
}

// hasList: there is a list of servers, be it an empty one.
func (b balancer) hasList() bool {
	_, ok := b.facts.Files[backendsPath]
	return ok
}

// unreachableOf joins why hosts could not be reached, for errors.Is.
func unreachableOf(seen map[string]balancer) error {
	var all []error
	for _, name := range names(seen) {
		if err := seen[name].unreachable; err != nil {
			all = append(all, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(all...)
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

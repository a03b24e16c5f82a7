package haproxy

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/neighbors"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// balancer is the observed state of one machine of the endpoint.
type balancer struct {
	unreachable   error // not nil: nothing else is known. The host is unreachable, or hangs
	facts         host.Facts
	otherEndpoint string            // the other endpoint that the machine belongs to; nothing below is known then
	owner         owner             // the endpoint that the machine belongs to
	device        string            // interface of the VIP; "" when none was found
	local         []netip.Addr      // the machine's addresses
	ipv6          bool              // that interface has an IPv6 address that other machines can reach
	neighbors     neighbors.Answers // for virtual IPs; empty unless probed
	backends                        // of 20-backends.cfg
	stats         []stat            // of the running HAProxy; nil if it does not answer
	unexpected    []string          // names in its statistics that no registration uses
	answers       bool              // HAProxy's socket answers
}

// renders reports whether the machine's keepalived is configured for a virtual IP.
func (b balancer) renders(address string) bool {
	return slices.Contains(strings.Fields(b.facts.Files[keepalivedPath].Content), address+"/128")
}

func (b balancer) holdsVIP(vip string) bool {
	for _, ip := range b.local {
		if ip.String() == vip {
			return true
		}
	}
	return false
}

// installed reports whether any file of the endpoint is on the machine.
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

// anyInstalled reports whether any file of the endpoint is on one of the machines.
func anyInstalled(seen map[string]balancer) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(seen)), balancer.installed)
}

func (b balancer) unitActive(unit string) bool {
	switch b.facts.Units[unit].Active {
	case "active", "reloading":
		return true
	}
	return false
}

// hasList reports whether there is a list of servers, which may be empty.
func (b balancer) hasList() bool {
	_, ok := b.facts.Files[backendsPath]
	return ok
}

// unreachableOf joins the errors of hosts that could not be reached, for errors.Is.
func unreachableOf(seen map[string]balancer) error {
	var all []error
	for _, name := range names(seen) {
		if err := seen[name].unreachable; err != nil {
			all = append(all, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(all...)
}

// lostOf returns the errors of hosts that could not be reached, by name.
func lostOf(seen map[string]balancer) map[string]error {
	lost := map[string]error{}
	for name, b := range seen {
		if b.unreachable != nil {
			lost[name] = b.unreachable
		}
	}
	return lost
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

package haproxy

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// If adding a host fails, the host is not in Terraform's state, which keeps its previous value. If it is taken out of
// the configuration again, only the records of the other hosts know of it, because all hosts are claimed before
// anything is started on one. Its keepalived no longer receives advertisements, and would take the address.

// unlisted returns the addresses of hosts that the record of a machine names, and that s does not have. A machine may
// say anything, so an address that no host of s could have is left out.
func (s Spec) unlisted(b balancer) []string {
	recorded := readRecord(b.facts.Files[recordPath].Content)
	if recorded == nil || b.unreachable != nil || b.otherEndpoint != "" {
		return nil
	}
	own := slices.Concat(slices.Collect(maps.Values(s.addresses())), s.vips())
	named := slices.Concat(slices.Collect(maps.Values(recorded.Hosts)), recorded.Leaving)
	named = slices.DeleteFunc(named, func(address string) bool {
		return slices.Contains(own, address) || host.CheckAddress(address) != nil ||
			ValidateHosts(s.Address, map[string]string{"named": address}) != nil
	})
	slices.Sort(named)
	named = slices.Compact(named)
	return named[:min(len(named), mostHosts)]
}

// unlistedBy returns what the machines' records name and s does not have: address → the hosts whose records name it.
func (s Spec) unlistedBy(seen map[string]balancer) map[string][]string {
	by := map[string][]string{}
	for _, name := range names(seen) {
		for _, address := range s.unlisted(seen[name]) {
			by[address] = append(by[address], name)
		}
	}
	return by
}

// forgottenDrift describes hosts that are not in s, and may still have the endpoint.
func forgottenDrift(s Spec, seen map[string]balancer) []string {
	var differences []string
	by := s.unlistedBy(seen)
	for _, address := range names(by) {
		differences = append(differences, fmt.Sprintf("%s is not in haproxy.hosts, and may still have HAProxy and "+
			"keepalived of the endpoint: %s names it on %s", address, recordPath, strings.Join(by[address], ", ")))
	}
	return differences
}

// stillHas reports whether a machine that is not in s has the endpoint. One of the machines in s, which is named by
// another of its addresses, does not count.
func (s Spec) stillHas(b balancer) bool {
	own := s.addresses()
	listed := slices.ContainsFunc(b.local, func(ip netip.Addr) bool {
		return slices.Contains(slices.Collect(maps.Values(own)), ip.String())
	})
	return b.owner != (owner{}) && b.otherEndpoint == "" && !listed
}

// forgotten is the hosts that are not in a Spec, and still have its endpoint, by address.
type forgotten struct {
	Spec
	seen map[string]balancer
	lost map[string]error // those that cannot be observed: they may have it
}

// forgottenHosts observes what the machines' records name and neither s nor leaving has.
func forgottenHosts(ctx context.Context, s, leaving Spec, seen map[string]balancer) (forgotten, error) {
	f := forgotten{Spec: s, lost: map[string]error{}}
	f.Hosts = map[string]*host.Host{}
	by := s.unlistedBy(seen)
	known := slices.Collect(maps.Values(leaving.addresses()))
	for address := range by {
		if s.Machine != nil && !slices.Contains(known, address) {
			f.Hosts[address] = s.Machine(address)
		}
	}
	observed := observeAll(ctx, f.Spec, healthQuery())
	if err := ctx.Err(); err != nil {
		return f, err
	}
	for address, b := range observed {
		switch {
		case b.unreachable != nil:
			f.lost[address] = fmt.Errorf("%s names %s on %s: %w", recordPath, address, strings.Join(by[address], ", "),
				b.unreachable)
		case !s.stillHas(b):
			delete(f.Hosts, address)
			delete(observed, address)
		}
	}
	f.seen = observed
	return f, nil
}

// remaining returns the addresses of the hosts that cannot be cleaned, and that the user has not abandoned. The records
// go on naming them.
func (f forgotten) remaining() []string {
	return slices.DeleteFunc(names(f.lost), func(at string) bool { return f.Abandon.Covers(at, f.lost[at]) })
}

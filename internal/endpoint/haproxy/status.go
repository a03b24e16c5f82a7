package haproxy

import (
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
)

// status derives the status of s from what was observed.
func status(s Spec, seen map[string]balancer) endpoint.Status {
	unreachable, missing := false, listDrift(seen)
	observed := endpoint.Status{ConfigDigest: digest(seen)}
	for _, name := range names(seen) {
		b := seen[name]
		if b.unreachable != nil {
			unreachable, observed.ConfigDigest = true, ""
			continue
		}
		for _, difference := range append(drift(s, name, b), missing[name]...) {
			observed.Drift = append(observed.Drift, name+": "+difference)
		}
	}
	observed.Drift = append(observed.Drift, forgottenDrift(s, seen)...)
	for _, address := range s.vips() {
		switch holders := holders(address, seen); {
		case len(holders) > 1:
			observed.Drift = append(observed.Drift, address+" is held by "+strings.Join(holders, " and "))
		case len(holders) == 0 && !unreachable && s.serves(): // an unreachable host may have it
			observed.Drift = append(observed.Drift, address+" is held by none of the hosts")
		}
	}
	first := holders(s.Address, seen)
	for _, address := range s.vips()[1:] {
		other := holders(address, seen)
		if len(first) == 1 && len(other) == 1 && first[0] != other[0] {
			observed.Drift = append(observed.Drift,
				s.Address+" is held by "+first[0]+", and "+address+" by "+other[0])
		}
	}
	return observed
}

// holders returns the hosts that have a virtual IP, sorted.
func holders(address string, seen map[string]balancer) []string {
	var holders []string
	for _, name := range names(seen) {
		if seen[name].holdsVIP(address) {
			holders = append(holders, name)
		}
	}
	return holders
}

// noHolder reports whether no host has any of the virtual IPs.
func noHolder(s Spec, seen map[string]balancer) bool {
	return !slices.ContainsFunc(s.vips(), func(address string) bool { return len(holders(address, seen)) > 0 })
}

// oneHolder reports whether exactly one host has virtual IPs, and has all of them.
func oneHolder(s Spec, seen map[string]balancer) bool {
	first := holders(s.Address, seen)
	return len(first) == 1 && !slices.ContainsFunc(s.vips(), func(address string) bool {
		return !slices.Equal(first, holders(address, seen))
	})
}

// health returns "ok", or describes the problem of a host.
func health(b balancer) string {
	if b.unreachable != nil {
		return b.unreachable.Error()
	}
	if b.otherEndpoint != "" {
		return b.otherEndpoint
	}
	var reasons []string
	for _, unit := range []string{haproxyUnit, keepalivedUnit} {
		if !b.unitActive(unit) {
			reasons = append(reasons, unit+" is "+activeState(b.facts.Units[unit]))
		}
	}
	if len(reasons) == 0 && !b.answers {
		reasons = append(reasons, "HAProxy does not answer")
	}
	if len(reasons) == 0 {
		return "ok"
	}
	return strings.Join(reasons, "; ")
}

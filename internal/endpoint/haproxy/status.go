package haproxy

import (
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
)

// status derives the status of s from what was observed.
func status(s Spec, seen map[string]balancer) endpoint.Status {
	holders, unreachable, missing := holders(s, seen), false, listDrift(seen)
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
	switch {
	case len(holders) > 1:
		observed.Drift = append(observed.Drift, s.Address+" is held by "+strings.Join(holders, " and "))
	case len(holders) == 0 && !unreachable: // an unreachable host may have it
		observed.Drift = append(observed.Drift, s.Address+" is held by none of the hosts")
	}
	return observed
}

// holders returns the hosts that have the address, sorted.
func holders(s Spec, seen map[string]balancer) []string {
	var holders []string
	for _, name := range names(seen) {
		if seen[name].holdsVIP(s.Address) {
			holders = append(holders, name)
		}
	}
	return holders
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

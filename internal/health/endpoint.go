package health

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
)

// Endpoint is the observed state of an endpoint. Of one without balancers, Health has only the address and the
// replicas.
type Endpoint struct {
	haproxy.Health
	Targets *targets.Health // nil for an endpoint with balancers
	Kind    endpoint.Kind
	// Announced: kube-vip announces the address from each machine, instead of giving it to one.
	Announced bool
}

// OfTargets returns what was observed of an endpoint without balancers.
func OfTargets(registration endpoint.Registration, observed targets.Health) Endpoint {
	return Endpoint{
		Health:  haproxy.Health{Address: registration.Address, Replicas: observed.Replicas},
		Targets: &observed, Kind: registration.Kind,
	}
}

// Registered reports whether a replica is in rotation.
func (h Endpoint) Registered(replica string) bool {
	if h.Targets == nil {
		return h.Health.Registered(replica)
	}
	_, listed := h.Targets.Replicas[replica]
	return listed && h.Targets.NotReady[replica] == ""
}

// where returns where the endpoint's address is.
func (h Endpoint) where() string {
	switch {
	case h.Targets == nil:
		return enumerated(append([]string{h.Address}, h.Others...)) + " on " + orNoBalancer(h.HoldersOfAll())
	case h.Targets.Silence != "":
		return h.Address + " does not answer"
	}
	return h.Address + " answers"
}

func orNoBalancer(holders []string) string {
	if len(holders) == 0 {
		return "no observed balancer"
	}
	return enumerated(holders)
}

func endpointIssues(h Endpoint) []Issue {
	if h.Targets != nil {
		return externalIssues(*h.Targets)
	}
	holders, unseen := h.Holders(), h.Unobserved()
	issues := holderIssues(h.Address, holders, unseen)
	for _, address := range h.Others {
		other := h.HoldersOf(address)
		issues = append(issues, holderIssues(address, other, unseen)...)
		if len(holders) == 1 && len(other) == 1 && holders[0] != other[0] {
			issues = append(issues, unhealthy("virtual IPs: %s is on %s, and %s on %s", h.Address, enumerated(holders),
				address, enumerated(other)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.Balancers)) {
		b := h.Balancers[name]
		if b.Err != nil {
			continue
		}
		if trouble := b.Problem(); trouble != "" {
			issues = append(issues, unhealthy("%s: %s", Labelled("balancer", name, b.Address), trouble))
		}
	}
	if len(h.Replicas) == 0 && len(unseen) < len(h.Balancers) {
		issues = append(issues, unhealthy("endpoint %s: no replica is registered", h.Address))
	}
	return issues
}

// holderIssues describes a virtual IP that is not on exactly one balancer.
func holderIssues(address string, holders, unseen []string) []Issue {
	switch {
	case len(holders) > 1:
		return []Issue{unhealthy("virtual IP %s: it is on %s at the same time", address, enumerated(holders))}
	case len(holders) == 0 && len(unseen) > 0:
		return []Issue{{Unreachable, fmt.Sprintf("virtual IP %s: no observed balancer has it; "+
			"%s may have it", address, enumerated(unseen))}}
	case len(holders) == 0:
		return []Issue{unhealthy("virtual IP %s: no balancer has it", address)}
	}
	return nil
}

func externalIssues(h targets.Health) []Issue {
	switch {
	case len(h.Replicas) == 0:
		return []Issue{unhealthy("endpoint %s: none of its targets has a replica", h.URL)}
	case h.Silence != "":
		return []Issue{unhealthy("endpoint %s: it does not answer: %s", h.URL, h.Silence)}
	}
	return nil
}

package provider

import (
	"context"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
)

// endpointHealth is the observed state of an endpoint. Of one without balancers, Health has only
// the address and the replicas.
type endpointHealth struct {
	haproxy.Health
	targets *targets.Health // nil for an endpoint with balancers
	kind    endpoint.Kind
	// announced: kube-vip announces the address from each machine, instead of giving it to one.
	announced bool
}

// health observes the endpoint of a registration.
func (r registrars) health(ctx context.Context, registration endpoint.Registration) endpointHealth {
	return kindOf(registration).health(ctx, r, registration)
}

// targetsHealth returns what was observed of an endpoint without balancers.
func targetsHealth(registration endpoint.Registration, observed targets.Health) endpointHealth {
	return endpointHealth{
		Health:  haproxy.Health{Address: registration.Address, Replicas: observed.Replicas},
		targets: &observed, kind: registration.Kind,
	}
}

// Registered reports whether a replica is in rotation.
func (h endpointHealth) Registered(replica string) bool {
	if h.targets == nil {
		return h.Health.Registered(replica)
	}
	_, listed := h.targets.Replicas[replica]
	return listed && h.targets.NotReady[replica] == ""
}

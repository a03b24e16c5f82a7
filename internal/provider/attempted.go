package provider

import (
	"context"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/combined"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// attempted returns the endpoints at which an earlier apply, which failed or was interrupted, began to register the
// replica, and which are neither in the state nor wanted now. The record on its machine names them, because it is
// written before a replica registers. It is believed about the replica's own machine only, and never
// about another cluster: a machine that was taken over may have written it. before are the endpoints of the state, and
// after the wanted ones, which are none if the replica is deleted.
func attempted(
	s controlplane.Spec, observed controlplane.Recorded, before, after endpoint.Registration,
) []endpoint.Registration {
	registration, err := registrationIn(observed.Registration)
	if err != nil || observed.ClusterID != s.Bundle.ClusterID || observed.Name != s.Name {
		return nil
	}
	tried := registration.All()
	if leaves, err := registrationIn(observed.Leaves); err == nil {
		tried = append(tried, leaves.All()...) // of a move whose state was lost
	}
	known := slices.Concat(before.IDs(), after.IDs())
	return slices.DeleteFunc(tried, func(r endpoint.Registration) bool {
		return r.ClusterID != s.Bundle.ClusterID || withoutBalancers(r) && r.Hosts[s.Name] != s.Address ||
			slices.Contains(known, r.ID())
	})
}

// attemptedAt returns the endpoints of attempted. A machine that cannot be asked, or whose record cannot be read, names
// none: the change itself says why.
func (s *session) attemptedAt(
	ctx context.Context, spec controlplane.Spec, before, after endpoint.Registration,
) []combined.Endpoint {
	var observed controlplane.Recorded
	err := host.InTime(ctx, spec.Address, func(ctx context.Context) (err error) {
		observed, err = s.replicas.Recorded(ctx, spec.Host)
		return err
	})
	if err != nil {
		return nil
	}
	var out []combined.Endpoint
	for _, registration := range attempted(spec, observed, before, after) {
		out = append(out, combined.Endpoint{
			ID: registration.ID(), Attempted: true,
			Registrar: s.registrars.recorded(registration, spec.Bundle.ClusterName),
		})
	}
	return out
}

// leaveAttempted makes a replica, which is created or deleted (gone) with the endpoints that its spec has, leave those
// of attempted too: otherwise they would send requests to a replica that is gone, or that is not meant to have them.
func (s *session) leaveAttempted(ctx context.Context, spec *controlplane.Spec, gone bool) {
	at, err := registrationIn(spec.Registration)
	own, ok := spec.Registrar.(registrar)
	if err != nil || !ok {
		return
	}
	after := at
	if gone {
		after = endpoint.Registration{}
	}
	spec.Registrar = leaving(own, spec.Name, at.ID(), s.attemptedAt(ctx, *spec, at, after))
}

// leaving returns the registrar of a replica that has its endpoints as before and leaves others.
func leaving(own registrar, replica, id string, left []combined.Endpoint) controlplane.Registrar {
	if len(left) == 0 {
		return own
	}
	return &combined.Registrar{
		Endpoints: []combined.Endpoint{{ID: id, Registrar: own}}, Replica: replica, Left: left,
	}
}

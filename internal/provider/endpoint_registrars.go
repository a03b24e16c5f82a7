package provider

import (
	"context"
	"slices"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/bgp"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/combined"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/dns"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/external"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/kubevip"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/health"
)

// registrars creates the registrar of a registration, whatever the kind of its endpoint.
type registrars struct {
	haproxy  *haproxy.Registrars
	external *external.Endpoints
	dns      *dns.Endpoints
	bgp      *bgp.Endpoints
	kubeVIP  *kubevip.Endpoints
	// hooks are those of the configuration, by endpoint: a registration that a machine has recorded, or
	// that finds the replicas for a query, has none.
	hooks *sync.Map
}

// registrar is a registrar that also knows who serves.
type registrar interface {
	controlplane.Registrar
	// Serving returns the replicas that get new requests, name → host:port.
	Serving(ctx context.Context) (map[string]string, error)
}

// For returns the registrar of a registration, at all of its endpoints.
func (r registrars) For(registration endpoint.Registration) registrar {
	return combine(registration.All(), nil, r.single)
}

// changing is For, for the change of a replica that comes to other endpoints, and leaves those that only the
// registration before has and those at which it was to be registered.
func (r registrars) changing(
	replica string, before, after endpoint.Registration, attempted []combined.Endpoint,
) registrar {
	single := func(after endpoint.Registration) registrar { return r.singleFrom(before, after) }
	if slices.Equal(before.IDs(), after.IDs()) && len(attempted) == 0 {
		return combine(after.All(), nil, single)
	}
	left := slices.DeleteFunc(before.All(), func(b endpoint.Registration) bool {
		return slices.ContainsFunc(after.All(), func(a endpoint.Registration) bool { return a.ID() == b.ID() })
	})
	r.know(left...)
	return combine(after.All(), &moving{replica, left, attempted}, single)
}

// singleFrom is single for a replica that has the registration before.
func (r registrars) singleFrom(before, after endpoint.Registration) registrar {
	for _, was := range before.All() {
		if after.Kind == endpoint.DNS && was.ID() == after.ID() {
			return r.dns.For(after).From(was)
		}
	}
	return r.single(after)
}

// movesRotation reports whether a replica that has the registration before comes to other endpoints, or its records to
// another server or zone.
func movesRotation(before, after endpoint.Registration) bool {
	if !slices.Equal(before.IDs(), after.IDs()) {
		return true
	}
	return slices.ContainsFunc(before.All(), func(was endpoint.Registration) bool {
		return slices.ContainsFunc(after.All(), func(to endpoint.Registration) bool {
			return was.ID() == to.ID() && was.Zone != nil && to.Zone != nil && !was.Zone.SameRecords(*to.Zone)
		})
	})
}

// moving is a replica whose endpoints change.
type moving struct {
	replica string
	left    []endpoint.Registration
	others  []combined.Endpoint // in Left too
}

// combine returns one registrar for all registrations.
func combine(
	registrations []endpoint.Registration, moves *moving, single func(endpoint.Registration) registrar,
) registrar {
	if len(registrations) == 1 && moves == nil {
		return single(registrations[0])
	}
	part := func(registration endpoint.Registration) combined.Endpoint {
		return combined.Endpoint{ID: registration.ID(), Registrar: single(registration)}
	}
	var all combined.Registrar
	for _, registration := range registrations {
		all.Endpoints = append(all.Endpoints, part(registration))
	}
	if moves != nil {
		all.Replica = moves.replica
		for _, registration := range moves.left {
			all.Left = append(all.Left, part(registration))
		}
		all.Left = append(all.Left, moves.others...)
	}
	return &all
}

// single returns the registrar at the endpoint of a registration itself.
func (r registrars) single(registration endpoint.Registration) registrar {
	return kindOf(registration).registrar(r, registration)
}

// recorded returns the registrar of a registration that a machine of a cluster has recorded. The
// hooks are those that this run was given for this endpoint. If it was given none, the registrar of one that has hooks
// refuses to change the rotation.
func (r registrars) recorded(registration endpoint.Registration, cluster string) registrar {
	return combine(registration.All(), nil, func(registration endpoint.Registration) registrar {
		return r.singleRecorded(registration, cluster)
	})
}

// returning is recorded for a replica that returns to the endpoints of leaves, until an apply moves it to those of at.
func (r registrars) returning(replica string, leaves, at endpoint.Registration, cluster string) registrar {
	var others []combined.Endpoint
	for _, to := range at.All() {
		if !slices.Contains(leaves.IDs(), to.ID()) {
			others = append(others, combined.Endpoint{
				ID: to.ID(), Expected: true, Registrar: r.singleRecorded(to, cluster),
			})
		}
	}
	return combine(leaves.All(), &moving{replica: replica, others: others}, func(was endpoint.Registration) registrar {
		single := r.singleRecorded(was, cluster)
		for _, to := range at.All() {
			if at, ok := single.(*dns.Registrar); ok && to.ID() == was.ID() {
				return at.From(to)
			}
		}
		return single
	})
}

// singleRecorded is recorded for one endpoint.
func (r registrars) singleRecorded(registration endpoint.Registration, cluster string) registrar {
	return kindOf(registration).recorded(r, registration, cluster)
}

// know notes the hooks that a configuration has for endpoints, for recorded.
func (r registrars) know(registrations ...endpoint.Registration) {
	for _, registration := range registrations {
		r.hooks.Store(endpointID(registration), registration.Hooks)
	}
}

func endpointID(r endpoint.Registration) string {
	return identity("kube_control_plane_endpoint", r.ClusterID, r.ID())
}

// recordedReplica reads what the record of the machine at an address says of its replica.
func (s *session) recordedReplica(ctx context.Context, address string) (targets.Replica, error) {
	observed, err := s.replicas.Recorded(ctx, s.machine(address))
	if err != nil {
		return targets.Replica{}, err
	}
	return replicaIn(observed)
}

// replicaIn returns what a record says of its replica.
func replicaIn(observed controlplane.Recorded) (targets.Replica, error) {
	if observed.Name == "" {
		return targets.Replica{Foreign: observed.Foreign, ClusterID: observed.ClusterID}, nil
	}
	ids, err := endpointIDs(observed)
	if err != nil {
		return targets.Replica{}, err
	}
	return targets.Replica{
		Name: observed.Name, Port: observed.Port, ClusterID: observed.ClusterID, Endpoints: ids,
	}, nil
}

// endpointIDs returns the endpoints that a record names: those at which the replica is, or is to be, registered, and
// those that it leaves until then. If what it leaves cannot be read, that counts as nothing.
func endpointIDs(observed controlplane.Recorded) ([]string, error) {
	registration, err := registrationIn(observed.Registration)
	if err != nil {
		return nil, err
	}
	ids := registration.IDs()
	if leaves, err := registrationIn(observed.Leaves); err == nil {
		ids = append(ids, leaves.IDs()...)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// health observes the endpoint of a registration.
func (r registrars) health(ctx context.Context, registration endpoint.Registration) health.Endpoint {
	return kindOf(registration).health(ctx, r, registration)
}

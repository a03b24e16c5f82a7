package provider

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/bgp"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/combined"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/dns"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/external"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/kubevip"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// endpointKind is an endpoint of one kind: a spec of the kind's domain package, with the
// operations on it.
type endpointKind interface {
	identities() []string
	address() string
	create(ctx context.Context) (endpoint.Status, error)
	read(ctx context.Context) (endpoint.Status, error)
	// update gets the spec before the change, which is of the same kind.
	update(ctx context.Context, before endpointKind) (endpoint.Status, error)
	// remove waits, in addition to the drain, for replicas that leave. alone is called for a
	// machine that belongs to another endpoint. It returns endpoint.ErrSuperseded if a Create has taken the endpoint over.
	remove(ctx context.Context, wait time.Duration, superseded endpoint.Superseded, alone func(why string)) error
}

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
	switch registration.Kind {
	case endpoint.External:
		return r.external.For(registration)
	case endpoint.DNS:
		return r.dns.For(registration)
	case endpoint.BGP:
		return r.bgp.For(registration)
	case endpoint.KubeVIP:
		return r.kubeVIP.For(registration)
	default:
		return r.haproxy.For(registration)
	}
}

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
	var observed targets.Health
	switch registration.Kind {
	case endpoint.External:
		observed = r.external.For(registration).Health(ctx)
	case endpoint.DNS:
		observed = r.dns.For(registration).Health(ctx)
	case endpoint.BGP:
		observed = r.bgp.For(registration).Health(ctx)
	case endpoint.KubeVIP:
		observed = r.kubeVIP.For(registration).Health(ctx)
	default:
		return endpointHealth{Health: r.haproxy.For(registration).Health(ctx), kind: endpoint.HAProxy}
	}
	return endpointHealth{
		Health:  haproxy.Health{Address: registration.Address, Replicas: observed.Replicas},
		targets: &observed, kind: registration.Kind,
		announced: registration.Kind == endpoint.KubeVIP && registration.BGP != nil,
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
	switch registration.Kind {
	case endpoint.External:
		if hooks, ok := r.hooks.Load(endpointID(registration)); ok {
			registration.Hooks, _ = hooks.(endpoint.Hooks)
			registration.HasHooks = registration.Hooks.Any()
		}
		return r.external.For(registration)
	case endpoint.DNS:
		return r.dns.ForRecorded(registration, cluster)
	case endpoint.BGP:
		return r.bgp.ForRecorded(registration)
	case endpoint.KubeVIP:
		return r.kubeVIP.ForRecorded(registration)
	default:
		return r.single(registration)
	}
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
	if err != nil || observed.Name == "" {
		return targets.Replica{Foreign: observed.Foreign, ClusterID: observed.ClusterID}, err
	}
	registration, err := registrationIn(observed.Registration)
	if err != nil {
		return targets.Replica{}, err
	}
	replica := targets.Replica{Name: observed.Name, Port: observed.Port, ClusterID: observed.ClusterID}
	for _, each := range registration.All() {
		replica.Endpoints = append(replica.Endpoints, each.ID())
	}
	return replica, nil
}

type haproxyEndpoint struct {
	haproxy.Spec
	registrars *haproxy.Registrars
}

// identities has one for each host: what a Create finds on a host that it shares with another resource is the same
// endpoint, and its records name the hosts that leave. Without a common host, nobody else would remove the address.
func (e haproxyEndpoint) identities() []string {
	var all []string
	for _, machine := range e.Hosts {
		all = append(all, identity(endpointID(e.Registration()), machine.Address()))
	}
	return all
}

func (e haproxyEndpoint) address() string { return e.Address }

func (e haproxyEndpoint) create(ctx context.Context) (endpoint.Status, error) {
	return haproxy.Create(ctx, e.Spec)
}

func (e haproxyEndpoint) read(ctx context.Context) (endpoint.Status, error) {
	return e.registrars.Read(ctx, e.Spec)
}

func (e haproxyEndpoint) update(ctx context.Context, before endpointKind) (endpoint.Status, error) {
	prior, _ := before.(haproxyEndpoint)
	return haproxy.Update(ctx, prior.Spec, e.Spec)
}

func (e haproxyEndpoint) remove(
	ctx context.Context, wait time.Duration, superseded endpoint.Superseded, alone func(string),
) error {
	return haproxy.Delete(ctx, e.Spec, haproxy.DeleteOptions{
		Abandon: e.Abandon, WaitForReplicas: e.DrainTimeout + wait, Superseded: superseded,
		LeftAlone: func(why string) { alone(problem.Block(why)) },
	})
}

// operations are those of a kind of endpoint without balancers, on a spec of its package.
type operations[S any] interface {
	Create(ctx context.Context, s S) (endpoint.Status, error)
	Read(ctx context.Context, s S) (endpoint.Status, error)
	Update(ctx context.Context, before, s S) (endpoint.Status, error)
}

// deletion deletes one endpoint, see endpointKind.remove.
type deletion = func(
	ctx context.Context, wait time.Duration, superseded endpoint.Superseded, alone func(why string),
) error

// targetsEndpoint is an endpoint without balancers.
type targetsEndpoint[S interface{ Registration() endpoint.Registration }] struct {
	operations[S]
	spec   S
	delete deletion
}

func (e targetsEndpoint[S]) identities() []string { return []string{endpointID(e.spec.Registration())} }

func (e targetsEndpoint[S]) address() string { return e.spec.Registration().Address }

func (e targetsEndpoint[S]) create(ctx context.Context) (endpoint.Status, error) {
	return e.Create(ctx, e.spec)
}

func (e targetsEndpoint[S]) read(ctx context.Context) (endpoint.Status, error) {
	return e.Read(ctx, e.spec)
}

func (e targetsEndpoint[S]) update(ctx context.Context, before endpointKind) (endpoint.Status, error) {
	prior, _ := before.(targetsEndpoint[S])
	return e.Update(ctx, prior.spec, e.spec)
}

func (e targetsEndpoint[S]) remove(
	ctx context.Context, wait time.Duration, superseded endpoint.Superseded, alone func(string),
) error {
	return e.delete(ctx, wait, superseded, alone)
}

func newExternalEndpoint(e *external.Endpoints, s external.Spec) endpointKind {
	return targetsEndpoint[external.Spec]{e, s, func(
		ctx context.Context, wait time.Duration, superseded endpoint.Superseded, _ func(string),
	) error {
		return e.Delete(ctx, s, s.DrainTimeout+wait, superseded)
	}}
}

func newDNSEndpoint(e *dns.Endpoints, s dns.Spec) endpointKind {
	return targetsEndpoint[dns.Spec]{e, s, func(
		ctx context.Context, wait time.Duration, superseded endpoint.Superseded, alone func(string),
	) error {
		return e.Delete(ctx, s, s.DrainTimeout+s.Zone.TTL+wait, superseded, func(why string) { alone(problem.Block(why)) })
	}}
}

func newBGPEndpoint(e *bgp.Endpoints, s bgp.Spec) endpointKind {
	return targetsEndpoint[bgp.Spec]{e, s, func(
		ctx context.Context, wait time.Duration, superseded endpoint.Superseded, _ func(string),
	) error {
		return e.Delete(ctx, s, s.DrainTimeout+s.Propagation+wait, superseded)
	}}
}

func newKubeVIPEndpoint(e *kubevip.Endpoints, s kubevip.Spec) endpointKind {
	return targetsEndpoint[kubevip.Spec]{e, s, func(
		ctx context.Context, wait time.Duration, superseded endpoint.Superseded, _ func(string),
	) error {
		return e.Delete(ctx, s, s.DrainTimeout+s.LeaseDuration+s.Announcement.Propagation+wait, superseded)
	}}
}

// spec returns the spec that the model describes.
func (r *endpointResource) spec(ctx context.Context, m endpointModel, diags *diag.Diagnostics) endpointKind {
	drain, err := parseDuration(m.DrainTimeout)
	if err != nil {
		addInvalid(diags, path.Root("drain_timeout"), "Invalid duration", err)
	}
	if !m.External.IsNull() {
		spec := m.external(ctx, diags).spec(ctx, diags)
		spec.ClusterID, spec.Address, spec.Port = m.bundle.ClusterID, m.Address.ValueString(), int(m.Port.ValueInt64())
		spec.DrainTimeout = drain
		return newExternalEndpoint(r.session.registrars.external, spec)
	}
	if !m.DNS.IsNull() {
		model, _ := m.dns(ctx, diags)
		return newDNSEndpoint(r.session.registrars.dns, dns.Spec{
			ClusterID: m.bundle.ClusterID, Address: m.Address.ValueString(), Port: int(m.Port.ValueInt64()),
			Targets: stringMapOf(ctx, model.Targets, diags), Zone: model.zone(ctx, diags), DrainTimeout: drain,
			ProbeFrom: model.ProbeFrom.ValueString(),
		})
	}
	if !m.BGP.IsNull() {
		model, _ := m.bgp(ctx, diags)
		spec := model.spec(ctx, diags)
		spec.ClusterID, spec.Address, spec.Port = m.bundle.ClusterID, m.Address.ValueString(), int(m.Port.ValueInt64())
		spec.DrainTimeout = drain
		return newBGPEndpoint(r.session.registrars.bgp, spec)
	}
	if !m.KubeVIP.IsNull() {
		model, _ := m.kubeVIP(ctx, diags)
		spec := model.spec(ctx, diags)
		spec.ClusterID, spec.Address, spec.Port = m.bundle.ClusterID, m.Address.ValueString(), int(m.Port.ValueInt64())
		spec.DrainTimeout = drain
		return newKubeVIPEndpoint(r.session.registrars.kubeVIP, spec)
	}
	balancers := m.balancers(ctx, diags)
	return haproxyEndpoint{registrars: r.session.registrars.haproxy, Spec: haproxy.Spec{
		ClusterID:       m.bundle.ClusterID,
		ClusterName:     m.bundle.ClusterName,
		Address:         m.Address.ValueString(),
		Address6:        balancers.Address6.ValueString(),
		Further:         stringsOf(ctx, balancers.Further, diags),
		Port:            int(m.Port.ValueInt64()),
		Hosts:           r.session.machines(stringMapOf(ctx, balancers.Hosts, diags)),
		Interface:       balancers.Interface.ValueString(),
		VirtualRouterID: int(balancers.VirtualRouterID.ValueInt64()),
		VRRP:            balancers.VRRP.ValueString(),
		InstallPackages: balancers.InstallPackages.ValueBool(),
		HandOver:        balancers.HandOver.ValueString(),
		Inherit:         balancers.Inherit.ValueBool(),
		Authorities:     m.bundle.Known(pki.Kubernetes),
		CACertificate:   m.CA.ValueString(),
		DrainTimeout:    drain,
		Konnectivity:    balancers.konnectivity(ctx),
		Metrics:         balancers.metrics(ctx),

		TextfileDirectory: balancers.textfileDirectory(),
		LivenessProbe:     balancers.LivenessProbe.ValueBool(),
		Abandon:           r.session.abandon,
		Registered:        r.session.registeredAt(m.bundle.ClusterID, m.Address.ValueString()),
		Machine:           r.session.machine,
	}}
}

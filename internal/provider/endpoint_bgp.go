package provider

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/bgp"
	"github.com/kubequorum/terraform-provider-kube/internal/health"
)

// bgpKind is an address that every machine of a replica has and announces.
type bgpKind struct{}

func (bgpKind) name() endpoint.Kind                    { return endpoint.BGP }
func (bgpKind) arguments(m endpointModel) types.Object { return m.BGP }
func (bgpKind) schema() schema.Attribute               { return bgpSchema() }
func (bgpKind) direct() bool                           { return true }
func (bgpKind) machinesAt() path.Path                  { return path.Root("bgp").AtName("targets") }

func (bgpKind) validate(ctx context.Context, model endpointModel, diags *diag.Diagnostics) {
	refuseCA(model, model.BGP, diags)
	arguments, known := model.bgp(ctx, diags)
	if !known || !allKnown(model.Address) || model.Port.IsUnknown() || diags.HasError() {
		return
	}
	spec := arguments.spec(ctx, diags)
	spec.Address, spec.Port = model.Address.ValueString(), int(model.Port.ValueInt64()) // 0 is the default
	if diags.HasError() {
		return
	}
	if err := bgp.ValidateRegistration(spec.Registration()); err != nil {
		addInvalid(diags, path.Root("bgp"), "Invalid endpoint", err)
	}
}

func (bgpKind) checkChange(_ context.Context, m, before endpointModel, diags *diag.Diagnostics) {
	m.refusePort(before, ownPort, "another kind", diags)
}

func (bgpKind) register(
	ctx context.Context, m endpointModel, to *registrationModel, diags *diag.Diagnostics,
) bool {
	arguments, known := m.bgp(ctx, diags)
	if !known {
		return false
	}
	spec := arguments.spec(ctx, diags)
	to.Kind, to.TargetPort = types.StringValue(string(endpoint.BGP)), m.Port
	to.Hosts = arguments.Targets
	to.BGP = announcementObject(ctx, spec.Registration().BGP, diags)
	return true
}

func (bgpKind) spec(
	ctx context.Context, s *session, m endpointModel, drain time.Duration, diags *diag.Diagnostics,
) endpointSpec {
	model, _ := m.bgp(ctx, diags)
	spec := model.spec(ctx, diags)
	spec.ClusterID, spec.Address, spec.Port = m.bundle.ClusterID, m.Address.ValueString(), int(m.Port.ValueInt64())
	spec.DrainTimeout = drain
	return newBGPEndpoint(s.registrars.bgp, spec)
}

func (bgpKind) validateRegistration(r endpoint.Registration) error {
	return bgp.ValidateRegistration(r)
}

func (bgpKind) registrar(r registrars, at endpoint.Registration) registrar { return r.bgp.For(at) }

func (bgpKind) recorded(r registrars, at endpoint.Registration, _ string) registrar {
	return r.bgp.ForRecorded(at)
}

func (bgpKind) health(ctx context.Context, r registrars, at endpoint.Registration) health.Endpoint {
	return health.OfTargets(at, r.bgp.For(at).Health(ctx))
}

func newBGPEndpoint(e *bgp.Endpoints, s bgp.Spec) endpointSpec {
	return targetsEndpoint[bgp.Spec]{e, s, func(
		ctx context.Context, wait time.Duration, superseded endpoint.Superseded, _ func(string),
	) error {
		return e.Delete(ctx, s, s.DrainTimeout+s.Propagation+wait, superseded)
	}}
}

// importArguments sets the attribute bgp.
func (bgpKind) importArguments(i importer, registration endpoint.Registration) {
	bgp := registration.BGP
	i.set("bgp.targets", registration.Hosts)
	i.set("bgp.asn", int64(bgp.ASN))
	i.set("bgp.peers", peerModels(bgp.Peers))
	i.set("bgp.hold_time", durationText(bgp.HoldTime))
	i.set("bgp.bfd_interval", durationText(bgp.BFDInterval))
	i.set("bgp.propagation_time", durationText(bgp.Propagation))
	i.set("bgp.install_packages", !bgp.KeepPackages)
}

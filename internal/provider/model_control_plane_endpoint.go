package provider

import (
	"context"
	"net"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
)

type endpointModel struct {
	machineModel

	Address      types.String `tfsdk:"address"`
	Port         types.Int64  `tfsdk:"port"`
	HAProxy      types.Object `tfsdk:"haproxy"`
	External     types.Object `tfsdk:"external"`
	DNS          types.Object `tfsdk:"dns"`
	BGP          types.Object `tfsdk:"bgp"`
	KubeVIP      types.Object `tfsdk:"kube_vip"`
	CA           types.String `tfsdk:"ca_certificate"`
	DrainTimeout types.String `tfsdk:"drain_timeout"`

	URL          types.String `tfsdk:"url"`
	Registration types.Object `tfsdk:"registration"`
	Backend      types.Object `tfsdk:"backend"`
}

type haproxyModel struct {
	Hosts           types.Map    `tfsdk:"hosts"`
	Address6        types.String `tfsdk:"address6"`
	Further         types.List   `tfsdk:"additional_addresses"`
	Interface       types.String `tfsdk:"interface"`
	VirtualRouterID types.Int64  `tfsdk:"virtual_router_id"`
	VRRP            types.String `tfsdk:"vrrp"`
	InstallPackages types.Bool   `tfsdk:"install_packages"`
	HandOver        types.String `tfsdk:"hand_over"`
	Inherit         types.Bool   `tfsdk:"inherit"`
	Konnectivity    types.Object `tfsdk:"konnectivity"`
	Metrics         types.Object `tfsdk:"metrics"`
	LivenessProbe   types.Bool   `tfsdk:"liveness_probe"`
}

// balancers decodes the haproxy attribute. If it is unknown, all of the result is unknown.
func (m endpointModel) balancers(ctx context.Context, diags *diag.Diagnostics) haproxyModel {
	model := haproxyModel{Hosts: types.MapUnknown(types.StringType), Address6: types.StringUnknown()}
	model.Further = types.ListUnknown(types.StringType)
	model.Konnectivity = types.ObjectUnknown(tunnelTypes)
	model.Metrics = types.ObjectUnknown(balancerMetricsTypes)
	if allKnown(m.HAProxy) {
		diags.Append(m.HAProxy.As(ctx, &model, basetypes.ObjectAsOptions{})...)
	}
	return model
}

func (m *endpointModel) name() string          { return m.Address.ValueString() }
func (m *endpointModel) label() string         { return "Endpoint " + m.name() }
func (m *endpointModel) address() types.String { return m.Address }

// at returns the attribute with the machines of the kind.
func (m *endpointModel) at() path.Path {
	switch {
	case !m.External.IsNull():
		return path.Root("external").AtName("targets")
	case !m.DNS.IsNull():
		return path.Root("dns").AtName("targets")
	case !m.BGP.IsNull():
		return path.Root("bgp").AtName("targets")
	case !m.KubeVIP.IsNull():
		return path.Root("kube_vip").AtName("targets")
	}
	return path.Root("haproxy").AtName("hosts")
}

// signature returns an empty signature: an endpoint has no certificates.
func (m *endpointModel) signature(context.Context) signature { return signature{} }

// derive sets the attributes that follow from the arguments.
func (m *endpointModel) derive(ctx context.Context, diags *diag.Diagnostics) {
	m.ID = m.Address
	m.planRegistration(ctx, types.StringValue(m.bundle.ClusterID), diags)
}

// planRegistration sets url and registration if the values they depend on are known.
func (m *endpointModel) planRegistration(ctx context.Context, cluster types.String, diags *diag.Diagnostics) {
	m.Registration, m.Backend = types.ObjectUnknown(registrationTypes), m.backend(ctx, diags)
	m.URL = types.StringUnknown()
	if !allKnown(m.Address, m.Port) {
		return
	}
	m.URL = types.StringValue(apiURL(m.Address.ValueString(), m.Port.ValueInt64()))
	if !allKnown(m.DrainTimeout) {
		return
	}
	registration := registrationModel{
		Hooks: types.ObjectNull(hooksTypes), Zone: types.ObjectNull(zoneTypes),
		BGP: types.ObjectNull(announcementTypes), KubeVIP: types.ObjectNull(electionTypes),
		Address: m.Address, Port: m.Port, DrainTimeout: m.DrainTimeout, VerifyCA: types.BoolValue(!m.CA.IsNull()),
		ClusterID: cluster, Further: types.ListNull(types.StringType),
	}
	switch {
	case m.HAProxy.IsUnknown() || m.External.IsUnknown() || m.DNS.IsUnknown() || m.BGP.IsUnknown() ||
		m.KubeVIP.IsUnknown():
		return
	case !m.DNS.IsNull():
		arguments, known := m.dns(ctx, diags)
		if !known {
			return
		}
		zone := arguments.zone(ctx, diags)
		registration.Kind, registration.TargetPort = types.StringValue(string(endpoint.DNS)), m.Port
		registration.Hosts, registration.ProbeFrom = arguments.Targets, arguments.ProbeFrom
		registration.Zone = zoneObject(ctx, &zone, diags)
	case !m.BGP.IsNull():
		arguments, known := m.bgp(ctx, diags)
		if !known {
			return
		}
		spec := arguments.spec(ctx, diags)
		registration.Kind, registration.TargetPort = types.StringValue(string(endpoint.BGP)), m.Port
		registration.Hosts = arguments.Targets
		registration.BGP = announcementObject(ctx, spec.Registration().BGP, diags)
	case !m.KubeVIP.IsNull():
		arguments, known := m.kubeVIP(ctx, diags)
		if !known {
			return
		}
		spec := arguments.spec(ctx, diags).Registration()
		registration.Kind, registration.TargetPort = types.StringValue(string(endpoint.KubeVIP)), m.Port
		registration.Hosts = arguments.Targets
		registration.KubeVIP = electionObject(ctx, spec.KubeVIP, diags)
		registration.BGP = announcementObject(ctx, spec.BGP, diags)
	case m.External.IsNull():
		balancers := m.balancers(ctx, diags)
		registration.Hosts, registration.Address6 = balancers.Hosts, balancers.Address6
		registration.Further = balancers.Further
	default:
		arguments := m.external(ctx, diags)
		if !arguments.known(ctx) {
			return
		}
		spec := arguments.spec(ctx, diags)
		registration.Kind = types.StringValue(string(endpoint.External))
		registration.Hosts, registration.TargetPort = arguments.Targets, arguments.TargetPort
		registration.DetectionTime = durationText(spec.HealthCheck.DetectionTime())
		registration.HealthyTime = durationText(spec.HealthCheck.HealthyTime())
		registration.ProbeFrom, registration.Hooks = arguments.ProbeFrom, arguments.Hooks
	}
	if registration.Address6.IsUnknown() || !elementsKnown(ctx, registration.Further) || !allKnown(registration.Hosts) ||
		!elementsKnown(ctx, registration.Hosts) {
		return
	}
	object, more := types.ObjectValueFrom(ctx, registrationTypes, registration)
	diags.Append(more...)
	m.Registration = object
}

func apiURL(address string, port int64) string {
	return "https://" + net.JoinHostPort(address, strconv.FormatInt(port, 10))
}

// affectsMachine reports whether going from before to m requires a change on the machines. The drain
// timeout is only read when a replica leaves. Of the bundle, only the cluster and its name
// matter, and the cluster stays the same. A resource that was imported without a bundle has not been observed yet.
func (m *endpointModel) affectsMachine(_ context.Context, before endpointModel, _ *session) bool {
	return drifted(before.Drift) || before.PKI.IsNull() || m.renamed(&before.machineModel) || changed(
		[2]attr.Value{m.Port, before.Port},
		[2]attr.Value{m.CA, before.CA},
		[2]attr.Value{m.HAProxy, before.HAProxy},
		[2]attr.Value{m.External, before.External},
		[2]attr.Value{m.DNS, before.DNS},
		[2]attr.Value{m.BGP, before.BGP},
		[2]attr.Value{m.KubeVIP, before.KubeVIP},
	)
}

// fill sets the attributes from the observed status.
func (m *endpointModel) fill(s endpoint.Status) {
	if s.ConfigDigest != "" || m.ConfigDigest.IsUnknown() { // otherwise the state keeps the last observed value
		m.ConfigDigest = types.StringValue(s.ConfigDigest)
	}
	m.Drift = stringList(s.Drift)
}

// keepObserved plans the last observed values, because the machines are not changed.
func (m *endpointModel) keepObserved(state endpointModel) {
	m.ID, m.ConfigDigest, m.Drift = state.ID, state.ConfigDigest, state.Drift
}

// planUpdate plans the values that an update results in.
func (m *endpointModel) planUpdate() {
	m.ID, m.ConfigDigest, m.Drift = m.Address, types.StringUnknown(), noDrift()
}

func (m *endpointModel) keepPlanned(plan endpointModel) {
	m.ConfigDigest, m.Drift = planned(plan.ConfigDigest, m.ConfigDigest), planned(plan.Drift, m.Drift)
}

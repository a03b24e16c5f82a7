package provider

import (
	"context"
	"net"
	"slices"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

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

func (m *endpointModel) name() string          { return m.Address.ValueString() }
func (m *endpointModel) label() string         { return "Endpoint " + m.name() }
func (m *endpointModel) address() types.String { return m.Address }

// at returns the attribute with the machines of the kind.
func (m *endpointModel) at() path.Path { return m.kind().machinesAt() }

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
	if !allKnown(m.DrainTimeout) || m.kindUnknown() {
		return
	}
	registration := registrationModel{
		Hooks: types.ObjectNull(hooksTypes), Zone: types.ObjectNull(zoneTypes),
		BGP: types.ObjectNull(announcementTypes), KubeVIP: types.ObjectNull(electionTypes),
		Address: m.Address, Port: m.Port, DrainTimeout: m.DrainTimeout, VerifyCA: types.BoolValue(!m.CA.IsNull()),
		ClusterID: cluster, Further: types.ListNull(types.StringType),
	}
	if !m.kind().register(ctx, *m, &registration, diags) {
		return
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
	arguments := func(kind endpointKind) bool { return !kind.arguments(*m).Equal(kind.arguments(before)) }
	return drifted(before.Drift) || before.PKI.IsNull() || m.renamed(&before.machineModel) ||
		slices.ContainsFunc(endpointKinds, arguments) || changed(
		[2]attr.Value{m.Port, before.Port},
		[2]attr.Value{m.CA, before.CA},
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

package provider

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// endpointResource is the fixed address of a control plane's API: a virtual IP
// held by keepalived in front of HAProxy on a set of machines.
type endpointResource struct{ configured }

var (
	_ resource.Resource                   = (*endpointResource)(nil)
	_ resource.ResourceWithConfigure      = (*endpointResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*endpointResource)(nil)
	_ resource.ResourceWithValidateConfig = (*endpointResource)(nil)
	_ resource.ResourceWithImportState    = (*endpointResource)(nil)
	_ resource.ResourceWithIdentity       = (*endpointResource)(nil)
)

type endpointModel struct {
	ID           types.String   `tfsdk:"id"`
	Address      types.String   `tfsdk:"address"`
	Port         types.Int64    `tfsdk:"port"`
	HAProxy      types.Object   `tfsdk:"haproxy"`
	PKI          types.String   `tfsdk:"pki"`
	CA           types.String   `tfsdk:"ca_certificate"`
	DrainTimeout types.String   `tfsdk:"drain_timeout"`
	Timeouts     timeouts.Value `tfsdk:"timeouts"`

	URL          types.String `tfsdk:"url"`
	Registration types.Object `tfsdk:"registration"`

	Holder       types.String `tfsdk:"holder"`
	HostHealth   types.Map    `tfsdk:"host_health"`
	Backends     types.Map    `tfsdk:"backends"`
	ConfigDigest types.String `tfsdk:"config_digest"`
	Drift        types.List   `tfsdk:"drift"`
}

type haproxyModel struct {
	Hosts           types.Map    `tfsdk:"hosts"`
	Interface       types.String `tfsdk:"interface"`
	VirtualRouterID types.Int64  `tfsdk:"virtual_router_id"`
	InstallPackages types.Bool   `tfsdk:"install_packages"`
}

func newEndpointResource() resource.Resource { return &endpointResource{} }

func (r *endpointResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_control_plane_endpoint"
}

func (r *endpointResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = endpointSchema(ctx)
}

// ValidateConfig checks what holds between attributes.
func (r *endpointResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var model endpointModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	balancers := model.balancers(ctx, &resp.Diagnostics)
	if resp.Diagnostics.HasError() || !allKnown(model.Address, balancers.Hosts) || !elementsKnown(ctx, balancers.Hosts) {
		return
	}
	hosts := stringMapOf(ctx, balancers.Hosts, &resp.Diagnostics)
	if err := endpoint.ValidateHosts(model.Address.ValueString(), hosts); err != nil {
		addInvalid(&resp.Diagnostics, path.Root("haproxy").AtName("hosts"), "Invalid endpoint hosts", err)
	}
}

// ModifyPlan plans what follows from the configuration alone, so that replicas
// know their registration before the endpoint is applied.
func (r *endpointResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return
	}
	var plan, state endpointModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	}
	bundle := r.session.bundle(plan.PKI, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	plan.planRegistration(ctx, plannedCluster(ctx, bundle, plan, state), &resp.Diagnostics)
	if !req.State.Raw.IsNull() {
		r.session.refuseStranger(ctx, state.PKI, bundle, req.Private, &resp.Diagnostics)
		if r.session.otherCluster(state.PKI, plan.PKI) {
			resp.RequiresReplace = append(resp.RequiresReplace, path.Root("pki"))
		}
		if plan.touches(state) {
			plan.forgetSeen()
		} else {
			plan.keepSeen(state)
		}
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, plan)...)
}

func (r *endpointResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model endpointModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	timeout, diags := model.Timeouts.Create(ctx, 10*time.Minute)
	resp.Diagnostics.Append(diags...)
	spec := r.spec(ctx, model, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := operation(ctx, timeout, "kube_control_plane_endpoint", spec.Address)
	defer cancel()
	r.session.begin()
	r.session.claims.claim(endpointIdentity(spec))
	status, err := endpoint.Create(ctx, spec)
	model.fill(status)
	model.planRegistration(ctx, types.StringValue(spec.ClusterID), &resp.Diagnostics)
	if err != nil {
		addError(&resp.Diagnostics, path.Root("haproxy").AtName("hosts"), "Endpoint not created", err)
		keepPartial(ctx, resp, model, err)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
	identify(ctx, resp.Identity, model.Address, &resp.Diagnostics)
}

func (r *endpointResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var model endpointModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	timeout, diags := model.Timeouts.Read(ctx, time.Minute)
	resp.Diagnostics.Append(diags...)
	identify(ctx, resp.Identity, model.Address, &resp.Diagnostics)
	if model.URL.IsNull() { // it was imported: what follows from its arguments needs no bundle
		model.planRegistration(ctx, stringOrNull(clusterImported(ctx, req.Private, &resp.Diagnostics)), &resp.Diagnostics)
		resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
	}
	if !r.session.recall(ctx, &model.PKI, req.Private, "Endpoint "+model.Address.ValueString(), &resp.Diagnostics) {
		return
	}
	spec := r.spec(ctx, model, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := operation(ctx, timeout, "kube_control_plane_endpoint", spec.Address)
	defer cancel()
	status, err := r.session.registrars.Read(ctx, spec)
	if errors.Is(err, endpoint.ErrGone) {
		warnGone(&resp.Diagnostics, err)
		resp.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		keepUnread(&resp.Diagnostics, fmt.Sprintf("Endpoint %s", spec.Address), err)
		return
	}
	model.fill(status)
	model.planRegistration(ctx, types.StringValue(spec.ClusterID), &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *endpointResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var model, state endpointModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := model.Timeouts.Update(ctx, 10*time.Minute)
	resp.Diagnostics.Append(diags...)
	spec := r.spec(ctx, model, &resp.Diagnostics)
	described := state
	described.PKI = model.PKI // of the same cluster: another one's replaces the endpoint
	before := r.spec(ctx, described, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	model.planRegistration(ctx, types.StringValue(spec.ClusterID), &resp.Diagnostics)
	if model.touches(state) {
		ctx, cancel := operation(ctx, timeout, "kube_control_plane_endpoint", spec.Address)
		defer cancel()
		r.session.begin()
		status, err := endpoint.Update(ctx, before, spec)
		if err != nil {
			addError(&resp.Diagnostics, path.Root("haproxy").AtName("hosts"), "Endpoint not changed", err)
			return
		}
		model.fill(status)
		warnDrift(&resp.Diagnostics, "Endpoint "+spec.Address, status.Drift, "")
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
	identify(ctx, resp.Identity, model.Address, &resp.Diagnostics)
}

func (r *endpointResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var model endpointModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	timeout, diags := model.Timeouts.Delete(ctx, 10*time.Minute)
	resp.Diagnostics.Append(diags...)
	if model.PKI.IsNull() && withoutBundle(nil, "Endpoint", &resp.Diagnostics) {
		return
	}
	spec := r.spec(ctx, model, &resp.Diagnostics)
	if resp.Diagnostics.HasError() || r.session.claims.superseded(endpointIdentity(spec))() {
		return
	}
	ctx, cancel := operation(ctx, timeout, "kube_control_plane_endpoint", spec.Address)
	defer cancel()
	options := endpoint.DeleteOptions{Abandon: r.session.abandon, Patience: spec.DrainTimeout + betweenReplicas}
	options.LeftAlone = func(why string) {
		resp.Diagnostics.AddWarning("A host of endpoint "+spec.Address+" was left alone", problem.Block(why))
	}
	r.session.begin()
	if err := endpoint.Delete(ctx, spec, options); err != nil {
		addError(&resp.Diagnostics, path.Root("haproxy").AtName("hosts"), "Endpoint not deleted", err)
	}
}

// betweenReplicas is what passes, beside the drain, between two replicas that
// leave the endpoint one after the other.
const betweenReplicas = 10 * time.Second

// endpointIdentity is what two descriptions of the same endpoint share.
func endpointIdentity(s endpoint.Spec) string {
	return identity("kube_control_plane_endpoint", s.ClusterID, s.Address, joined(s.Hosts))
}

// spec is the endpoint as the model describes it.
func (r *endpointResource) spec(ctx context.Context, m endpointModel, diags *diag.Diagnostics) endpoint.Spec {
	if !r.connected(diags) {
		return endpoint.Spec{}
	}
	balancers := m.balancers(ctx, diags)
	bundle := r.session.mustBundle(m.PKI, diags)
	if bundle == nil {
		return endpoint.Spec{}
	}
	drain, err := parseDuration(m.DrainTimeout)
	if err != nil {
		addInvalid(diags, path.Root("drain_timeout"), "Invalid duration", err)
	}
	return endpoint.Spec{
		ClusterID:       bundle.ClusterID,
		ClusterName:     bundle.ClusterName,
		Address:         m.Address.ValueString(),
		Port:            int(m.Port.ValueInt64()),
		Hosts:           r.session.machines(stringMapOf(ctx, balancers.Hosts, diags)),
		Interface:       balancers.Interface.ValueString(),
		VirtualRouterID: int(balancers.VirtualRouterID.ValueInt64()),
		InstallPackages: balancers.InstallPackages.ValueBool(),
		CACertificate:   m.CA.ValueString(),
		DrainTimeout:    drain,
		Abandon:         r.session.abandon,
		Registered:      r.session.registeredAt(bundle.ClusterID, m.Address.ValueString()),
	}
}

// plannedCluster is the cluster that the endpoint will be of. A bundle that is only
// known after the apply is of the cluster that the endpoint has: another one's
// would replace the endpoint.
func plannedCluster(ctx context.Context, bundle *pki.Bundle, plan, state endpointModel) types.String {
	if bundle != nil {
		return types.StringValue(bundle.ClusterID)
	}
	var before registrationModel
	if plan.Address.Equal(state.Address) && allKnown(state.Registration) && !state.Registration.As(ctx, &before, basetypes.ObjectAsOptions{}).HasError() && allKnown(before.ClusterID) {
		return before.ClusterID
	}
	return types.StringUnknown()
}

// balancers decodes the haproxy attribute; all of it is unknown while it is.
func (m endpointModel) balancers(ctx context.Context, diags *diag.Diagnostics) haproxyModel {
	model := haproxyModel{Hosts: types.MapUnknown(types.StringType)}
	if allKnown(m.HAProxy) {
		diags.Append(m.HAProxy.As(ctx, &model, basetypes.ObjectAsOptions{})...)
	}
	return model
}

// planRegistration sets url and registration where all they follow from is known.
func (m *endpointModel) planRegistration(ctx context.Context, cluster types.String, diags *diag.Diagnostics) {
	m.Registration = types.ObjectUnknown(registrationTypes)
	m.URL = types.StringUnknown()
	if !allKnown(m.Address, m.Port) {
		return
	}
	m.URL = types.StringValue("https://" + net.JoinHostPort(m.Address.ValueString(), strconv.FormatInt(m.Port.ValueInt64(), 10)))
	hosts := m.balancers(ctx, diags).Hosts
	if !allKnown(hosts, m.DrainTimeout) || !elementsKnown(ctx, hosts) {
		return
	}
	object, more := types.ObjectValueFrom(ctx, registrationTypes, registrationModel{
		Address:      m.Address,
		Port:         m.Port,
		Hosts:        hosts,
		DrainTimeout: m.DrainTimeout,
		VerifyCA:     types.BoolValue(!m.CA.IsNull()),
		ClusterID:    cluster,
	})
	diags.Append(more...)
	m.Registration = object
}

// touches reports whether going from before to m has to do anything on the
// machines. The drain timeout is only read when a replica leaves; of the bundle only
// the cluster counts, which stays. What was imported without a bundle was never
// looked at.
func (m endpointModel) touches(before endpointModel) bool {
	return drifted(before.Drift) || before.PKI.IsNull() || changed(
		[2]attr.Value{m.Port, before.Port},
		[2]attr.Value{m.CA, before.CA},
		[2]attr.Value{m.HAProxy, before.HAProxy},
	)
}

// fill takes over what was found.
func (m *endpointModel) fill(s endpoint.Status) {
	m.ID = m.Address
	m.Holder = said(s.Holder)
	m.HostHealth = stringMap(s.Hosts)
	m.Backends = stringMap(s.Backends)
	m.ConfigDigest = types.StringValue(s.ConfigDigest)
	m.Drift = stringList(s.Drift)
}

// keepSeen plans what was last seen: the machines will not be touched.
func (m *endpointModel) keepSeen(state endpointModel) {
	m.ID, m.Holder, m.HostHealth, m.Backends = state.ID, state.Holder, state.HostHealth, state.Backends
	m.ConfigDigest, m.Drift = state.ConfigDigest, state.Drift
}

// forgetSeen plans that all of it is known after the apply.
func (m *endpointModel) forgetSeen() {
	m.ID, m.Holder, m.ConfigDigest = m.Address, types.StringUnknown(), types.StringUnknown()
	m.HostHealth, m.Backends = types.MapUnknown(types.StringType), types.MapUnknown(types.StringType)
	m.Drift = types.ListUnknown(types.StringType)
}

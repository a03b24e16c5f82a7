package provider

import (
	"context"
	"errors"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/kubevip"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// certificateRequestsResource has the requests that an external signer has to sign for one
// machine or user, and their private keys. It exists in the state only.
type certificateRequestsResource struct{ configured }

var (
	_ resource.Resource                   = (*certificateRequestsResource)(nil)
	_ resource.ResourceWithConfigure      = (*certificateRequestsResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*certificateRequestsResource)(nil)
	_ resource.ResourceWithValidateConfig = (*certificateRequestsResource)(nil)
)

type certificateRequestsModel struct {
	PKI        types.String `tfsdk:"pki"`
	EtcdMember types.Object `tfsdk:"etcd_member"`
	Replica    types.Object `tfsdk:"replica"`
	User       types.Object `tfsdk:"user"`

	Requests  types.Map    `tfsdk:"requests"`
	Keys      types.String `tfsdk:"keys"`
	SealedFor types.Set    `tfsdk:"sealed_for"`
}

type requestedMemberModel struct {
	Name    types.String `tfsdk:"name"`
	Address types.String `tfsdk:"address"`
}

type requestedReplicaModel struct {
	Name          types.String `tfsdk:"name"`
	Address       types.String `tfsdk:"address"`
	Endpoint      types.String `tfsdk:"endpoint"`
	Endpoint6     types.String `tfsdk:"endpoint6"`
	Additional    types.List   `tfsdk:"additional_addresses"`
	KubeVIP       types.Bool   `tfsdk:"kube_vip"`
	ServiceCIDRs  types.List   `tfsdk:"service_cidrs"`
	ClusterDomain types.String `tfsdk:"cluster_domain"`
	ExtraSANs     types.Set    `tfsdk:"extra_sans"`
}

type requestedUserModel struct {
	Name   types.String `tfsdk:"name"`
	Groups types.Set    `tfsdk:"groups"`
}

func newCertificateRequestsResource() resource.Resource { return &certificateRequestsResource{} }

func (r *certificateRequestsResource) Metadata(
	_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse,
) {
	resp.TypeName = req.ProviderTypeName + "_certificate_requests"
}

func (r *certificateRequestsResource) Schema(
	_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse,
) {
	resp.Schema = certificateRequestsSchema()
}

// ValidateConfig checks the rules between attributes.
func (r *certificateRequestsResource) ValidateConfig(
	ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	var model certificateRequestsModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if model.EtcdMember.IsNull() && model.Replica.IsNull() && model.User.IsNull() {
		addInvalid(&resp.Diagnostics, attributePath("pki"), "No certificate is requested",
			errors.New("none of etcd_member, replica and user is set: set at least one of them"))
	}
	if model.Replica.IsNull() || !elementsKnown(ctx, model.Replica) {
		return
	}
	replica := decodeReplica(ctx, model.Replica, &resp.Diagnostics)
	if cidrs := stringsOf(ctx, replica.ServiceCIDRs, &resp.Diagnostics); cidrs != nil {
		if err := component.ValidateCIDRs(cidrs, nil); err != nil {
			addInvalid(&resp.Diagnostics, attributePath("replica.service_cidrs"), "Invalid CIDRs", err)
		}
	}
}

// ModifyPlan keeps the requests whose contents stay the same, so their signed certificates stay
// valid. New requests are planned with everything but their text.
func (r *certificateRequestsResource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	if req.Plan.Raw.IsNull() {
		return
	}
	var plan, state certificateRequestsModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	plan.SealedFor = r.session.sealedFor()
	have := requests{}
	bundle := r.session.bundle(plan.PKI, &resp.Diagnostics)
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
		r.session.refuseLostBundle(ctx, state.PKI, plan.PKI, req.Private, &resp.Diagnostics)
		if otherCluster(r.session.prior(state.PKI), bundle) {
			resp.RequiresReplace = append(resp.RequiresReplace, attributePath("pki"))
		} else {
			have = decodeRequests(ctx, state.Requests, &resp.Diagnostics)
		}
	}
	if resp.Diagnostics.HasError() {
		return
	}
	plan.Requests, plan.Keys = types.MapUnknown(requestType), types.StringUnknown()
	if bundle != nil && plan.known(ctx) {
		wanted, changes := plan.wanted(ctx, bundle, &resp.Diagnostics).keeping(have)
		plan.Requests = wanted.encode(ctx, &resp.Diagnostics)
		if !changes && plan.SealedFor.Equal(state.SealedFor) {
			plan.Keys = state.Keys
		}
	}
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, plan)...)
}

func (r *certificateRequestsResource) Create(
	ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse,
) {
	var model certificateRequestsModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	r.request(ctx, &model, requests{}, map[string]string{}, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// Read does nothing: requests and keys exist in the state only.
func (r *certificateRequestsResource) Read(context.Context, resource.ReadRequest, *resource.ReadResponse) {
}

// Update creates the requests that are new or have changed, and seals the keys again.
func (r *certificateRequestsResource) Update(
	ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse,
) {
	var model, state certificateRequestsModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if model.Keys.IsUnknown() { // otherwise the keys do not change
		keys, err := openKeys(state.Keys.ValueString(), r.session.seal)
		if err != nil {
			addError(&resp.Diagnostics, attributePath("pki"), "Private keys not opened", err)
			return
		}
		r.request(ctx, &model, decodeRequests(ctx, state.Requests, &resp.Diagnostics), keys, &resp.Diagnostics)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// Delete drops the keys. Certificates that were signed for them stay valid until they expire.
func (r *certificateRequestsResource) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {
}

// request creates the wanted requests that do not exist yet.
func (r *certificateRequestsResource) request(
	ctx context.Context, m *certificateRequestsModel, have requests, keys map[string]string, diags *diag.Diagnostics,
) {
	bundle := r.session.mustBundle(m.PKI, diags)
	if diags.HasError() {
		return
	}
	wanted, _ := m.wanted(ctx, bundle, diags).keeping(have)
	if diags.HasError() {
		return
	}
	made := map[string]string{}
	for name, request := range wanted {
		made[name] = keys[name]
		if !request.Request.IsUnknown() && made[name] != "" {
			continue
		}
		text, key, err := bundle.Request(request.leaf)
		if err != nil {
			addError(diags, attributePath("pki"), "Certificate not requested", err)
			return
		}
		request.Request, made[name] = types.StringValue(text), key
		wanted[name] = request
	}
	closed, err := closeKeys(made, r.session.seal)
	if err != nil {
		addError(diags, attributePath("pki"), "Private keys not sealed", err)
		return
	}
	m.Requests, m.Keys = wanted.encode(ctx, diags), types.StringValue(closed)
}

// known reports whether the contents of the requests are known.
func (m certificateRequestsModel) known(ctx context.Context) bool {
	return elementsKnown(ctx, m.EtcdMember) && elementsKnown(ctx, m.Replica) && elementsKnown(ctx, m.User)
}

// wanted returns the requests that the bundle requires.
func (m certificateRequestsModel) wanted(ctx context.Context, bundle *pki.Bundle, diags *diag.Diagnostics) requests {
	var leaves []pki.Leaf
	if !m.EtcdMember.IsNull() {
		var member requestedMemberModel
		diags.Append(m.EtcdMember.As(ctx, &member, basetypes.ObjectAsOptions{})...)
		leaves = append(leaves, machine.Leaves(member.Name.ValueString(), member.Address.ValueString())...)
	}
	if !m.Replica.IsNull() {
		replica := decodeReplica(ctx, m.Replica, diags)
		holders := ""
		if replica.KubeVIP.ValueBool() {
			holders = kubevip.HoldersOf(replica.Endpoint.ValueString())
		}
		all := component.Leaves(replica.names(ctx, diags))
		leaves = append(leaves, withLease(all, replica.Name.ValueString(), holders)...)
	}
	if !m.User.IsNull() {
		var user requestedUserModel
		diags.Append(m.User.As(ctx, &user, basetypes.ObjectAsOptions{})...)
		leaves = append(leaves, pki.User(user.Name.ValueString(), stringsOf(ctx, user.Groups, diags)...))
	}
	if diags.HasError() {
		return nil
	}
	wanted, err := requestsFor(bundle, leaves)
	if err != nil {
		addInvalid(diags, attributePath("pki"), "Invalid request", err)
	}
	return wanted
}

func decodeReplica(ctx context.Context, value types.Object, diags *diag.Diagnostics) requestedReplicaModel {
	var model requestedReplicaModel
	diags.Append(value.As(ctx, &model, basetypes.ObjectAsOptions{})...)
	return model
}

// withLease adds the certificate of a replica for the Lease of its endpoint, if it has one.
func withLease(leaves []pki.Leaf, replica, holders string) []pki.Leaf {
	if holders == "" {
		return leaves
	}
	return append(leaves, component.LeaseHolder(replica, holders))
}

func (m requestedReplicaModel) names(ctx context.Context, diags *diag.Diagnostics) pki.APIServerNames {
	return pki.APIServerNames{
		NodeName:      m.Name.ValueString(),
		ClusterDomain: m.ClusterDomain.ValueString(),
		ServiceIPs:    component.ServiceIPs(stringsOf(ctx, m.ServiceCIDRs, diags)),
		Advertise:     m.Address.ValueString(),
		Endpoint:      m.Endpoint.ValueString(),
		Endpoint6:     m.Endpoint6.ValueString(),
		Additional:    stringsOf(ctx, m.Additional, diags),
		Extra:         stringsOf(ctx, m.ExtraSANs, diags),
	}
}

package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/boolvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/mapplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// bootstrapTokenResource is a bootstrap token in the state, for machines that join after the apply.
type bootstrapTokenResource struct {
	configured
	now func() time.Time
}

var (
	_ resource.Resource               = (*bootstrapTokenResource)(nil)
	_ resource.ResourceWithConfigure  = (*bootstrapTokenResource)(nil)
	_ resource.ResourceWithModifyPlan = (*bootstrapTokenResource)(nil)
)

type bootstrapTokenResourceModel struct {
	ID        types.String `tfsdk:"id"`
	Triggers  types.Map    `tfsdk:"triggers"`
	SealedFor types.Set    `tfsdk:"sealed_for"`
	bootstrapTokenModel
}

func newBootstrapTokenResource() resource.Resource { return &bootstrapTokenResource{now: time.Now} }

func (r *bootstrapTokenResource) Metadata(
	_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse,
) {
	resp.TypeName = tokenKind
}

func (r *bootstrapTokenResource) Schema(
	_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse,
) {
	const replaces = " A change replaces the token."
	replaced := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	secret := func(description string) schema.Attribute {
		return schema.StringAttribute{
			Computed: true, Sensitive: true, PlanModifiers: kept(), MarkdownDescription: description,
		}
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "A bootstrap token for machines that join after the apply, such as those of an autoscaling " +
			"group. Destroying it revokes it. With the provider's `seal`, `token`, `join_command` and `discovery_file` are " +
			"age files in the state (`terraform output -raw join | age -d -i key.txt`). An expired token stays in the state " +
			"and plans nothing; a change of `triggers` makes a new one. A token that was deleted before its expiry is made " +
			"again. If the token is needed only within an apply, use the ephemeral resource of the same name.",
		Attributes: map[string]schema.Attribute{
			"id": keptString("ID of the token."),
			"pki": schema.StringAttribute{Required: true, Sensitive: true, MarkdownDescription: tokenPKI +
				" A change caused by a rotation of that CA or by a new seal updates the join command in place; the bundle of " +
				"another cluster replaces the token."},
			"endpoint": clusterEndpointSchema(tokenEndpoint),
			"triggers": schema.MapAttribute{
				Optional: true, ElementType: types.StringType,
				PlanModifiers: []planmodifier.Map{mapplanmodifier.RequiresReplace()},
				MarkdownDescription: "Any values. Default: none. A change replaces the token; for example, the value of a " +
					"`time_rotating` makes a new one regularly.",
			},
			"description": schema.StringAttribute{
				Optional: true, PlanModifiers: replaced, MarkdownDescription: tokenDescribed + "." + replaces,
			},
			"validity": schema.StringAttribute{
				Optional: true, Validators: []validator.String{durationValidator()},
				PlanModifiers:       []planmodifier.String{sameDuration{}, stringplanmodifier.RequiresReplace()},
				MarkdownDescription: tokenValidity + "." + replaces,
			},
			"never_expires": schema.BoolAttribute{
				Optional: true, MarkdownDescription: tokenForever + "." + replaces,
				PlanModifiers: []planmodifier.Bool{boolplanmodifier.RequiresReplace()},
				Validators:    []validator.Bool{boolvalidator.ConflictsWith(path.MatchRoot("validity"))},
			},
			"token_id":       keptString(tokenIDText),
			"token":          secret(tokenText),
			"join_command":   secret(tokenCommand),
			"discovery_file": secret(tokenFile),
			"ca_cert_hashes": schema.ListAttribute{
				Computed: true, ElementType: types.StringType, MarkdownDescription: caCertHashes,
			},
			"expires_at": keptString(tokenExpiring),
			"sealed_for": sealedForSchema(),
		},
	}
}

// ModifyPlan plans another join command if its contents change, and the same token in any case.
func (r *bootstrapTokenResource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	if req.Plan.Raw.IsNull() {
		return
	}
	var plan, state bootstrapTokenResourceModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	bundle := r.session.bundle(plan.PKI, &resp.Diagnostics)
	refuseExternalCA(bundle, &resp.Diagnostics)
	refuseForeignEndpoint(ctx, plan.Endpoint, bundle, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	plan.SealedFor, plan.Hashes = r.session.sealedFor(), types.ListUnknown(types.StringType)
	if bundle != nil {
		plan.Hashes = hashesOf(bundle, &resp.Diagnostics)
	}
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
		r.session.refuseMovedCA(state.PKI, bundle, &resp.Diagnostics)
		r.session.refuseLostBundle(ctx, state.PKI, plan.PKI, req.Private, &resp.Diagnostics)
		if otherCluster(r.session.prior(state.PKI), bundle) {
			resp.RequiresReplace = append(resp.RequiresReplace, path.Root("pki"))
		}
		sealed := plan.SealedFor.Equal(state.SealedFor)
		if !sealed {
			plan.Token = types.StringUnknown()
		}
		// A state of an earlier version has no discovery file.
		if !sealed || !plan.Hashes.Equal(state.Hashes) || !plan.Endpoint.Equal(state.Endpoint) ||
			!sameAnchors(r.session.prior(state.PKI), bundle) || state.DiscoveryFile.IsNull() {
			plan.JoinCommand, plan.DiscoveryFile = types.StringUnknown(), types.StringUnknown()
		}
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, plan)...)
}

// sameAnchors reports whether both bundles are known and verify the cluster's certificates with the same CAs.
func sameAnchors(a, b *pki.Bundle) bool {
	return a != nil && b != nil && a.Anchors(pki.Kubernetes) == b.Anchors(pki.Kubernetes)
}

// open returns the bundle of the model, for what connects to the cluster.
func (r *bootstrapTokenResource) open(m *bootstrapTokenResourceModel, diags *diag.Diagnostics) *pki.Bundle {
	if diags.HasError() || !r.connected(diags) {
		return nil
	}
	bundle := r.session.mustBundle(m.PKI, diags)
	refuseExternalCA(bundle, diags)
	return bundle
}

func (r *bootstrapTokenResource) Create(
	ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse,
) {
	var model bootstrapTokenResourceModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	bundle := r.open(&model, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := operation(ctx, tokenTime, tokenKind, bundle.ClusterName)
	defer cancel()
	r.session.begin()
	model.create(ctx, r.session, bundle, r.now(), &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	model.ID = model.TokenID
	r.close(&model, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// close seals what contains the secret.
func (r *bootstrapTokenResource) close(m *bootstrapTokenResourceModel, diags *diag.Diagnostics) {
	for _, secret := range []*types.String{&m.Token, &m.JoinCommand, &m.DiscoveryFile} {
		sealed, err := r.session.seal.Close(secret.ValueString())
		if err != nil {
			addError(diags, path.Root("pki"), "Bootstrap token not sealed", err)
			sealed = "" // never in the clear
		}
		*secret = types.StringValue(sealed)
	}
}

// expired reports whether the token has ended on its own.
func (m bootstrapTokenResourceModel) expired(now time.Time) bool {
	at, err := time.Parse(time.RFC3339, m.ExpiresAt.ValueString())
	return err == nil && !now.Before(at)
}

var errTokenDeleted = errors.New("the token was deleted before it expired")

// Read notices a token that was deleted. One that has expired is deleted by kube-controller-manager.
func (r *bootstrapTokenResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var model bootstrapTokenResourceModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	bundle := r.open(&model, &resp.Diagnostics)
	if resp.Diagnostics.HasError() || model.expired(r.now()) {
		return
	}
	ctx, cancel := operation(ctx, time.Minute, tokenKind, bundle.ClusterName)
	defer cancel()
	registrar := r.session.registrars.For(decodeEndpoint(ctx, model.Endpoint, bundle, &resp.Diagnostics))
	exists, err := r.session.replicas.TokenExists(ctx, bundle, registrar, model.TokenID.ValueString())
	switch {
	case err != nil:
		reportUnasked(&resp.Diagnostics, "Bootstrap token "+model.TokenID.ValueString(), err)
	case !exists:
		warnGone(&resp.Diagnostics, fmt.Errorf("bootstrap token %s: %w", model.TokenID.ValueString(), errTokenDeleted))
		resp.State.RemoveResource(ctx)
	}
}

// Update renders the join command again, and seals it. The token stays.
func (r *bootstrapTokenResource) Update(
	ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse,
) {
	var model, state bootstrapTokenResourceModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	bundle := r.open(&model, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	if !model.Token.IsUnknown() && !model.JoinCommand.IsUnknown() {
		model.Hashes = hashesOf(bundle, &resp.Diagnostics)
		resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
		return
	}
	text, err := r.session.seal.Open(state.Token.ValueString())
	if err != nil {
		addError(&resp.Diagnostics, path.Root("pki"), "Bootstrap token not opened", err)
		return
	}
	resealed := model.Token.IsUnknown()
	model.Hashes = hashesOf(bundle, &resp.Diagnostics)
	model.Token = types.StringValue(text)
	model.renderJoin(ctx, bundle, text, &resp.Diagnostics)
	r.close(&model, &resp.Diagnostics)
	if !resealed {
		model.Token = state.Token // as planned: sealed again, it would be another text
	}
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
	}
}

// expiredTime limits the revocation of a token that has ended by the clock of this computer. Other clocks decide.
const expiredTime = 10 * time.Second

// Delete revokes the token. One that has ended need not be there, nor an API server that says so.
func (r *bootstrapTokenResource) Delete(
	ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse,
) {
	var model bootstrapTokenResourceModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if model.expired(r.now()) {
		_ = r.revoke(ctx, model, expiredTime, &diag.Diagnostics{})
		return
	}
	err := r.revoke(ctx, model, tokenTime, &resp.Diagnostics)
	switch {
	case resp.Diagnostics.HasError() || err == nil:
		return
	case errors.Is(err, controlplane.ErrNoReplicas):
		resp.Diagnostics.AddWarning("Bootstrap token not revoked", "The endpoint has no replica that could revoke it. If "+
			"the control plane returns with its data, machines can join with the token until it ends.\n"+
			"Next step: if it returns, run kubeadm token delete "+model.TokenID.ValueString()+".")
		return
	}
	p := asProblem("Bootstrap token not revoked", err)
	if p.Unchanged == "" {
		p.Unchanged = problem.Nothing
	}
	addError(&resp.Diagnostics, path.Root("endpoint"), "Bootstrap token not revoked", p)
}

// revoke deletes the token from the control plane, within a time.
func (r *bootstrapTokenResource) revoke(
	ctx context.Context, model bootstrapTokenResourceModel, within time.Duration, diags *diag.Diagnostics,
) error {
	bundle := r.open(&model, diags)
	if diags.HasError() {
		return nil
	}
	ctx, cancel := operation(ctx, within, tokenKind, bundle.ClusterName)
	defer cancel()
	registrar := r.session.registrars.For(decodeEndpoint(ctx, model.Endpoint, bundle, diags))
	return r.session.replicas.RevokeToken(ctx, bundle, registrar, model.TokenID.ValueString())
}

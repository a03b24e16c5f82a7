package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// kubeconfigResource is a kubeconfig in the state, for users who need a file. It is issued
// once, and again when its inputs change or it is about to expire.
type kubeconfigResource struct {
	configured
	now func() time.Time
}

var (
	_ resource.Resource                   = (*kubeconfigResource)(nil)
	_ resource.ResourceWithConfigure      = (*kubeconfigResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*kubeconfigResource)(nil)
	_ resource.ResourceWithValidateConfig = (*kubeconfigResource)(nil)
	_ resource.ResourceWithImportState    = (*kubeconfigResource)(nil)
)

type kubeconfigResourceModel struct {
	ID     types.String `tfsdk:"id"`
	Early  types.String `tfsdk:"early_renewal"`
	Signed types.Object `tfsdk:"signed"`
	// SealedFor shows in the plan that the seal has changed. Sealed text does not contain its
	// recipients.
	SealedFor types.Set `tfsdk:"sealed_for"`
	kubeconfigModel
}

func newKubeconfigResource() resource.Resource { return &kubeconfigResource{now: time.Now} }

func (r *kubeconfigResource) Metadata(
	_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse,
) {
	resp.TypeName = req.ProviderTypeName + "_kubeconfig"
}

func (r *kubeconfigResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	replaced := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	sensitive := func(description string) schema.Attribute {
		return schema.StringAttribute{
			Computed: true, Sensitive: true, PlanModifiers: kept(),
			MarkdownDescription: description,
		}
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "A kubeconfig that is stored in the state, including its private key. With the " +
			"provider's `seal`, `content` and `client_key` are age files (`terraform output -raw kubeconfig | age " +
			"-d -i key.txt`). If nothing may be stored, use the ephemeral resource of the same name.",
		Attributes: map[string]schema.Attribute{
			"id": keptString("Fingerprint of the client certificate."),
			"pki": schema.StringAttribute{Required: true, Sensitive: true, MarkdownDescription: kubeconfigPKI +
				" A change caused by a rotation of the Kubernetes CA, a new cluster name or a new seal renews the kubeconfig in " +
				"place; the bundle of another cluster replaces it."},
			"server": schema.StringAttribute{
				Required: true, PlanModifiers: replaced, MarkdownDescription: kubeconfigServer +
					" A change replaces the kubeconfig.",
				Validators: []validator.String{checked("server URL", pki.ValidateServer)},
			},
			"user": schema.StringAttribute{
				Optional: true, Computed: true, PlanModifiers: replaced,
				Default: stringdefault.StaticString(defaultUser), MarkdownDescription: kubeconfigUser +
					" A change replaces the kubeconfig.",
			},
			"groups": schema.SetAttribute{
				Optional: true, Computed: true, ElementType: types.StringType,
				PlanModifiers: []planmodifier.Set{setplanmodifier.RequiresReplace()},
				Default:       setdefault.StaticValue(defaultGroups), MarkdownDescription: kubeconfigGroups +
					" A change replaces the kubeconfig.",
			},
			"validity": schema.StringAttribute{
				Optional: true, Computed: true, Validators: []validator.String{durationValidator()},
				PlanModifiers: []planmodifier.String{sameDuration{}, stringplanmodifier.RequiresReplace()},
				Default:       stringdefault.StaticString("8760h"), MarkdownDescription: kubeconfigValidity +
					" Default `8760h`, one year. A change replaces the kubeconfig.",
			},
			"early_renewal": schema.StringAttribute{
				Optional: true, Validators: []validator.String{durationValidator()},
				PlanModifiers: []planmodifier.String{sameDuration{}},
				MarkdownDescription: "How long before its expiry the certificate is renewed, such as `720h`; less " +
					"than `validity`. Default: a third of its lifetime. A plan within that time renews the " +
					"kubeconfig in place. A change renews the kubeconfig if it becomes due; otherwise it has no " +
					"effect.",
			},
			"signed": signedSchemaOf("It is then required to create or renew the kubeconfig. A change puts " +
				"the new certificate in place of the current one. The signer determines its validity; plans warn before it " +
				"expires. Default: none; a certificate that is in the state stays."),
			"content":                sensitive(kubeconfigContent),
			"cluster_ca_certificate": keptString(kubeconfigCA),
			"client_certificate":     keptString(kubeconfigCert),
			"client_key":             sensitive(kubeconfigKey),
			"expires_at":             keptString(kubeconfigExpiry),
			"sealed_for":             sealedForSchema(),
		},
	}
}

// ValidateConfig rejects a kubeconfig that would be due for renewal immediately.
func (r *kubeconfigResource) ValidateConfig(
	ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	var model kubeconfigResourceModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	validateEarlyRenewal(model.Early, model.Validity, &resp.Diagnostics)
}

// validateEarlyRenewal rejects a renewal that is due as soon as a certificate is issued.
func validateEarlyRenewal(earlyRenewal, lifetime types.String, diags *diag.Diagnostics) {
	early, _ := parseDuration(earlyRenewal)
	validity, _ := parseDuration(lifetime)
	if validity == 0 {
		validity = kubeconfigLife
	}
	if early >= validity && !lifetime.IsUnknown() && !diags.HasError() {
		addInvalid(diags, attributePath("early_renewal"), "Invalid early renewal",
			fmt.Errorf("early renewal %s is not less than the validity %s: a new certificate would be due immediately", early,
				validity))
	}
}

// ModifyPlan replaces the kubeconfig when its cluster changes. It renews it in place when it is
// due, when a rotation has changed its inputs, or when the seal has changed. A bundle that is
// not known yet may cause any of these.
func (r *kubeconfigResource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	if req.Plan.Raw.IsNull() {
		return
	}
	var plan, state kubeconfigResourceModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	plan.SealedFor = r.session.sealedFor()
	bundle := r.session.bundle(plan.PKI, &resp.Diagnostics)
	prior := (*pki.Bundle)(nil)
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
		prior = r.session.prior(state.PKI)
		r.session.refuseLostBundle(ctx, state.PKI, plan.PKI, req.Private, &resp.Diagnostics)
	}
	if plan.issues(ctx, prior, bundle, r.now()) {
		r.session.checkSigned(ctx, bundle, plan.Signed, plan.leaves(ctx), types.StringNull(), r.now(), &resp.Diagnostics)
	}
	warnExpiring(bundle, plan.Signed, plan.Early, r.now(), &resp.Diagnostics)
	if !req.State.Raw.IsNull() {
		switch {
		case resp.Diagnostics.HasError():
			return
		case otherCluster(prior, bundle):
			resp.RequiresReplace = append(resp.RequiresReplace, attributePath("pki"))
		case bundle == nil || prior.Renamed(bundle) || !elementsKnown(ctx, plan.Signed) ||
			!plan.SealedFor.Equal(state.SealedFor) || plan.due(ctx, bundle, r.now()):
			plan.forget()
		}
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, plan)...)
}

// issues reports whether a certificate is issued, or was signed. One that is in the state stays in use, also if the key
// of the CA is held elsewhere from now on.
func (m kubeconfigResourceModel) issues(ctx context.Context, prior, bundle *pki.Bundle, now time.Time) bool {
	return bundle == nil || prior == nil || !m.Signed.IsNull() || prior.Renamed(bundle) || m.due(ctx, bundle, now)
}

// leaves returns the kubeconfig's certificate, or none while it is unknown.
func (m kubeconfigResourceModel) leaves(ctx context.Context) []pki.Leaf {
	if !allKnown(m.User) || !elementsKnown(ctx, m.Groups) {
		return nil
	}
	return []pki.Leaf{m.leaf(ctx)}
}

func (m kubeconfigResourceModel) leaf(ctx context.Context) pki.Leaf {
	var ignored diag.Diagnostics // issuing decodes the same and reports the diagnostics
	return pki.User(m.User.ValueString(), stringsOf(ctx, m.Groups, &ignored)...)
}

// due reports whether the kubeconfig has to be issued again.
func (m kubeconfigResourceModel) due(ctx context.Context, bundle *pki.Bundle, now time.Time) bool {
	user := m.leaf(ctx)
	early, _ := parseDuration(m.Early)
	certificate := m.ClientCertificate.ValueString()
	return m.CACertificate.ValueString() != bundle.Roots(pki.Kubernetes) ||
		len(bundle.Renewal(user, certificate, early, now)) > 0 || len(bundle.Check(user, certificate, now)) > 0
}

// forget plans that the values of the certificate are known after the apply.
func (m *kubeconfigResourceModel) forget() {
	m.ID, m.Content, m.CACertificate = types.StringUnknown(), types.StringUnknown(), types.StringUnknown()
	m.ClientCertificate, m.ClientKey, m.ExpiresAt = types.StringUnknown(), types.StringUnknown(), types.StringUnknown()
}

// keep copies the values of the state.
func (m *kubeconfigResourceModel) keep(state kubeconfigResourceModel) {
	m.ID, m.Content, m.CACertificate = state.ID, state.Content, state.CACertificate
	m.ClientCertificate, m.ClientKey, m.ExpiresAt = state.ClientCertificate, state.ClientKey, state.ExpiresAt
}

func (r *kubeconfigResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model kubeconfigResourceModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	bundle := r.session.mustBundle(model.PKI, &resp.Diagnostics)
	r.session.checkSigned(ctx, bundle, model.Signed, model.leaves(ctx), types.StringNull(), r.now(), &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	r.renew(ctx, &model, bundle, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// kubeconfigLife is the validity if none is set.
const kubeconfigLife = 365 * 24 * time.Hour

// renew issues the kubeconfig and seals it.
func (r *kubeconfigResource) renew(
	ctx context.Context, m *kubeconfigResourceModel, bundle *pki.Bundle, diags *diag.Diagnostics,
) {
	m.issue(ctx, bundle, r.now(), kubeconfigLife, diags)
	if diags.HasError() {
		return
	}
	info, err := pki.Inspect(m.ClientCertificate.ValueString())
	if err != nil {
		addError(diags, attributePath("user"), "Kubeconfig not issued", err)
		return
	}
	m.ID = types.StringValue(info.SHA256)
	m.seal(r.session.seal, diags)
}

// seal seals the attributes that contain the private key.
func (m *kubeconfigResourceModel) seal(seal *pki.Seal, diags *diag.Diagnostics) {
	sealText(&m.Content, seal, diags)
	sealText(&m.ClientKey, seal, diags)
}

// reseal opens the existing kubeconfig and seals it with the provider's current seal.
func (r *kubeconfigResource) reseal(m *kubeconfigResourceModel, diags *diag.Diagnostics) {
	for _, secret := range []*types.String{&m.Content, &m.ClientKey} {
		text, err := r.session.seal.Open(secret.ValueString())
		if err != nil {
			addError(diags, attributePath("pki"), "Kubeconfig not opened", err)
			return
		}
		*secret = types.StringValue(text)
	}
	m.seal(r.session.seal, diags)
}

// Read does not query any machine: the kubeconfig exists in the state only. An imported
// kubeconfig gets its bundle.
func (r *kubeconfigResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var model kubeconfigResourceModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if !resp.Diagnostics.HasError() && r.restoreBundle(&model) {
		resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
	}
}

// Update does what the plan requires, and what the bundle requires, which is known by now.
func (r *kubeconfigResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var model, state kubeconfigResourceModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	bundle := r.session.mustBundle(model.PKI, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	changes, prior := model.Content.IsUnknown(), r.session.prior(state.PKI)
	model.keep(state)
	if model.issues(ctx, prior, bundle, r.now()) {
		r.session.checkSigned(ctx, bundle, model.Signed, model.leaves(ctx), types.StringNull(), r.now(), &resp.Diagnostics)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	switch {
	case !changes: // as planned
	case prior.Renamed(bundle), model.due(ctx, bundle, r.now()):
		r.renew(ctx, &model, bundle, &resp.Diagnostics)
	case !model.SealedFor.Equal(state.SealedFor):
		r.reseal(&model, &resp.Diagnostics)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// Delete drops the kubeconfig. Its certificate stays valid until it expires.
func (r *kubeconfigResource) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {
}

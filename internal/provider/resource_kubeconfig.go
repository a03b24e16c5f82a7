package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// kubeconfigResource is a kubeconfig kept in state, for those who need a file.
// It is issued once, and again when what it is made of changes or its time is
// coming to an end.
type kubeconfigResource struct {
	now func() time.Time
}

var (
	_ resource.Resource                   = (*kubeconfigResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*kubeconfigResource)(nil)
	_ resource.ResourceWithValidateConfig = (*kubeconfigResource)(nil)
)

type kubeconfigResourceModel struct {
	ID    types.String `tfsdk:"id"`
	Early types.String `tfsdk:"early_renewal"`
	kubeconfigModel
}

func newKubeconfigResource() resource.Resource { return &kubeconfigResource{now: time.Now} }

func (r *kubeconfigResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_kubeconfig"
}

func (r *kubeconfigResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	replaced := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	sensitive := func(description string) schema.Attribute {
		return schema.StringAttribute{Computed: true, Sensitive: true, PlanModifiers: kept(), MarkdownDescription: description}
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "A kubeconfig kept in state, private key included. Where nothing may be stored, use the ephemeral resource of the same name.",
		Attributes: map[string]schema.Attribute{
			"id":  keptString("Fingerprint of the client certificate."),
			"pki": schema.StringAttribute{Required: true, Sensitive: true, MarkdownDescription: kubeconfigPKI + " Another authority in it replaces the kubeconfig."},
			"server": schema.StringAttribute{
				Required: true, PlanModifiers: replaced, MarkdownDescription: kubeconfigServer + " A change replaces the kubeconfig.",
				Validators: []validator.String{checked("server URL", pki.ValidateServer)},
			},
			"user": schema.StringAttribute{
				Optional: true, Computed: true, PlanModifiers: replaced,
				Default: stringdefault.StaticString(defaultUser), MarkdownDescription: kubeconfigUser + " A change replaces the kubeconfig.",
			},
			"groups": schema.ListAttribute{
				Optional: true, Computed: true, ElementType: types.StringType,
				PlanModifiers: []planmodifier.List{listplanmodifier.RequiresReplace()},
				Default:       listdefault.StaticValue(defaultGroups), MarkdownDescription: kubeconfigGroups + " A change replaces the kubeconfig.",
			},
			"validity": schema.StringAttribute{
				Optional: true, Computed: true, PlanModifiers: replaced, Validators: []validator.String{durationValidator()},
				Default: stringdefault.StaticString("8760h"), MarkdownDescription: kubeconfigValidity + " Default `8760h`, one year. A change replaces the kubeconfig.",
			},
			"early_renewal": schema.StringAttribute{
				Optional: true, Validators: []validator.String{durationValidator()},
				MarkdownDescription: "How long before its end the certificate is renewed, such as `720h`; less than `validity`. Default: a third of its life. " +
					"A plan within that time renews the kubeconfig in place.",
			},
			"content":                sensitive(kubeconfigContent),
			"cluster_ca_certificate": keptString(kubeconfigCA),
			"client_certificate":     keptString(kubeconfigCert),
			"client_key":             sensitive(kubeconfigKey),
			"expires_at":             keptString(kubeconfigExpiry),
		},
	}
}

// ValidateConfig refuses a kubeconfig that would be due for renewal at once.
func (r *kubeconfigResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var model kubeconfigResourceModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	early, _ := parseDuration(model.Early)
	validity, _ := parseDuration(model.Validity)
	if validity == 0 {
		validity = kubeconfigLife
	}
	if early >= validity && !model.Validity.IsUnknown() && !resp.Diagnostics.HasError() {
		addInvalid(&resp.Diagnostics, attributePath("early_renewal"), "Invalid early renewal",
			fmt.Errorf("early renewal %s is not less than the validity %s: a new kubeconfig would be due at once", early, validity))
	}
}

// ModifyPlan replaces the kubeconfig when the authority behind it is another
// one, and renews it when it is due; any other change of the bundle leaves it alone.
func (r *kubeconfigResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() || req.State.Raw.IsNull() {
		return
	}
	var plan, state kubeconfigResourceModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	var ignored diag.Diagnostics
	bundle := bundleOf(plan.PKI, &ignored)
	switch {
	case bundle == nil:
	case bundle.CA.Certificate != state.CACertificate.ValueString():
		resp.RequiresReplace = append(resp.RequiresReplace, attributePath("pki"))
	case plan.due(ctx, bundle, r.now()):
		plan.forget()
		resp.Diagnostics.Append(resp.Plan.Set(ctx, plan)...)
	}
}

// due reports whether the certificate that is there has to be renewed.
func (m kubeconfigResourceModel) due(ctx context.Context, bundle *pki.Bundle, now time.Time) bool {
	var ignored diag.Diagnostics
	user := pki.User(m.User.ValueString(), stringsOf(ctx, m.Groups, &ignored)...)
	early, _ := parseDuration(m.Early)
	certificate := m.ClientCertificate.ValueString()
	return len(bundle.Renewal(user, certificate, early, now)) > 0 || len(bundle.Check(user, certificate, now)) > 0
}

// forget plans that what follows from the certificate is known after the apply.
func (m *kubeconfigResourceModel) forget() {
	m.ID, m.Content = types.StringUnknown(), types.StringUnknown()
	m.ClientCertificate, m.ClientKey, m.ExpiresAt = types.StringUnknown(), types.StringUnknown(), types.StringUnknown()
}

func (r *kubeconfigResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model kubeconfigResourceModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	model.renew(ctx, r.now(), &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// kubeconfigLife is the validity where none is set.
const kubeconfigLife = 365 * 24 * time.Hour

// renew issues the kubeconfig.
func (m *kubeconfigResourceModel) renew(ctx context.Context, now time.Time, diags *diag.Diagnostics) {
	m.issue(ctx, now, kubeconfigLife, diags)
	if diags.HasError() {
		return
	}
	info, err := pki.Inspect(m.ClientCertificate.ValueString())
	if err != nil {
		addError(diags, attributePath("user"), "Kubeconfig not issued", err)
		return
	}
	m.ID = types.StringValue(info.SHA256)
}

// Read has nothing to look at: the kubeconfig exists in state only.
func (r *kubeconfigResource) Read(context.Context, resource.ReadRequest, *resource.ReadResponse) {}

// Update takes over a bundle whose authority is the same, and renews what the
// plan found due.
func (r *kubeconfigResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var model kubeconfigResourceModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	if model.Content.IsUnknown() {
		model.renew(ctx, r.now(), &resp.Diagnostics)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// Delete forgets the kubeconfig; its certificate stays valid until it expires.
func (r *kubeconfigResource) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {
}

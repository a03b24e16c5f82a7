package provider

import (
	"context"
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
// It is issued once and again only when what it is made of changes.
type kubeconfigResource struct{}

var (
	_ resource.Resource               = (*kubeconfigResource)(nil)
	_ resource.ResourceWithModifyPlan = (*kubeconfigResource)(nil)
)

type kubeconfigResourceModel struct {
	ID types.String `tfsdk:"id"`
	kubeconfigModel
}

func newKubeconfigResource() resource.Resource { return &kubeconfigResource{} }

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
			"content":                sensitive(kubeconfigContent),
			"cluster_ca_certificate": keptString(kubeconfigCA),
			"client_certificate":     keptString(kubeconfigCert),
			"client_key":             sensitive(kubeconfigKey),
			"expires_at":             keptString(kubeconfigExpiry),
		},
	}
}

// ModifyPlan replaces the kubeconfig when the authority behind it is another
// one; any other change of the bundle leaves it alone.
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
	if bundle := bundleOf(plan.PKI, &ignored); bundle != nil && bundle.CA.Certificate != state.CACertificate.ValueString() {
		resp.RequiresReplace = append(resp.RequiresReplace, attributePath("pki"))
	}
}

func (r *kubeconfigResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model kubeconfigResourceModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	model.issue(ctx, 365*24*time.Hour, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	info, err := pki.Inspect(model.ClientCertificate.ValueString())
	if err != nil {
		addError(&resp.Diagnostics, attributePath("user"), "Kubeconfig not issued", err)
		return
	}
	model.ID = types.StringValue(info.SHA256)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// Read has nothing to look at: the kubeconfig exists in state only.
func (r *kubeconfigResource) Read(context.Context, resource.ReadRequest, *resource.ReadResponse) {}

// Update takes over a bundle whose authority is the same.
func (r *kubeconfigResource) Update(_ context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	resp.State.Raw = req.Plan.Raw
}

// Delete forgets the kubeconfig; its certificate stays valid until it expires.
func (r *kubeconfigResource) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {
}

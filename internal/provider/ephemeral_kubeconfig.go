package provider

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// kubeconfigEphemeral is a kubeconfig with a short-lived client certificate. It is stored
// neither in the state nor in the plan.
type kubeconfigEphemeral struct{ configured }

var (
	_ ephemeral.EphemeralResource              = (*kubeconfigEphemeral)(nil)
	_ ephemeral.EphemeralResourceWithConfigure = (*kubeconfigEphemeral)(nil)
)

func newKubeconfigEphemeral() ephemeral.EphemeralResource { return &kubeconfigEphemeral{} }

func (e *kubeconfigEphemeral) Metadata(
	_ context.Context, req ephemeral.MetadataRequest, resp *ephemeral.MetadataResponse,
) {
	resp.TypeName = req.ProviderTypeName + "_kubeconfig"
}

// Configure takes the data of the provider's Configure.
func (e *kubeconfigEphemeral) Configure(
	_ context.Context, req ephemeral.ConfigureRequest, resp *ephemeral.ConfigureResponse,
) {
	e.setSession(req.ProviderData, &resp.Diagnostics)
}

func (e *kubeconfigEphemeral) Schema(_ context.Context, _ ephemeral.SchemaRequest, resp *ephemeral.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A kubeconfig for use within one plan or apply, with a short-lived client " +
			"certificate. It is never stored.",
		Attributes: map[string]schema.Attribute{
			"pki": schema.StringAttribute{Required: true, Sensitive: true, MarkdownDescription: kubeconfigPKI},
			"server": schema.StringAttribute{
				Required: true, MarkdownDescription: kubeconfigServer,
				Validators: []validator.String{checked("server URL", pki.ValidateServer)},
			},
			"user": schema.StringAttribute{Optional: true, Computed: true, MarkdownDescription: kubeconfigUser},
			"groups": schema.SetAttribute{
				Optional: true, Computed: true, ElementType: types.StringType,
				MarkdownDescription: kubeconfigGroups,
			},
			"validity": schema.StringAttribute{
				Optional: true, Validators: []validator.String{durationValidator()},
				MarkdownDescription: kubeconfigValidity + " Default `1h`.",
			},
			"content": schema.StringAttribute{
				Computed: true, Sensitive: true,
				MarkdownDescription: kubeconfigContent,
			},
			"cluster_ca_certificate": schema.StringAttribute{Computed: true, MarkdownDescription: kubeconfigCA},
			"client_certificate":     schema.StringAttribute{Computed: true, MarkdownDescription: kubeconfigCert},
			"client_key": schema.StringAttribute{
				Computed: true, Sensitive: true,
				MarkdownDescription: kubeconfigKey,
			},
			"expires_at": schema.StringAttribute{Computed: true, MarkdownDescription: kubeconfigExpiry},
		},
	}
}

func (e *kubeconfigEphemeral) Open(ctx context.Context, req ephemeral.OpenRequest, resp *ephemeral.OpenResponse) {
	var model kubeconfigModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if model.User.IsNull() {
		model.User = types.StringValue(defaultUser)
	}
	if model.Groups.IsNull() {
		model.Groups = defaultGroups
	}
	bundle := e.session.mustBundle(model.PKI, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	model.issue(ctx, bundle, time.Now(), time.Hour, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(resp.Result.Set(ctx, model)...)
}

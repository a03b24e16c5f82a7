package provider

import (
	"context"
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
	credentialResource[kubeconfigResourceModel, *kubeconfigResourceModel]
}

var (
	_ resource.Resource                   = (*kubeconfigResource)(nil)
	_ resource.ResourceWithConfigure      = (*kubeconfigResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*kubeconfigResource)(nil)
	_ resource.ResourceWithValidateConfig = (*kubeconfigResource)(nil)
	_ resource.ResourceWithImportState    = (*kubeconfigResource)(nil)
)

type kubeconfigResourceModel struct {
	Signed types.Object `tfsdk:"signed"`
	credentialModel
	kubeconfigModel
}

func newKubeconfigResource() resource.Resource {
	r := &kubeconfigResource{}
	r.now, r.secret = time.Now, "Kubeconfig"
	return r
}

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
			"validity":      credentialValidity("kubeconfig"),
			"early_renewal": credentialEarlyRenewal("the kubeconfig"),
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

func (m *kubeconfigResourceModel) issued() []*types.String {
	return []*types.String{&m.Content, &m.CACertificate, &m.ClientCertificate, &m.ClientKey, &m.ExpiresAt}
}

func (m *kubeconfigResourceModel) secrets() []*types.String {
	return []*types.String{&m.Content, &m.ClientKey}
}

func (m *kubeconfigResourceModel) signature(ctx context.Context) signature {
	if !allKnown(m.User) || !elementsKnown(ctx, m.Groups) {
		return signature{value: m.Signed}
	}
	return signature{value: m.Signed, leaves: []pki.Leaf{m.leaf(ctx)}}
}

func (m *kubeconfigResourceModel) leaf(ctx context.Context) pki.Leaf {
	var ignored diag.Diagnostics // issuing decodes the same and reports the diagnostics
	return pki.User(m.User.ValueString(), stringsOf(ctx, m.Groups, &ignored)...)
}

// stale also reports another cluster name, which the kubeconfig contains.
func (m *kubeconfigResourceModel) stale(ctx context.Context, prior, bundle *pki.Bundle, now time.Time) bool {
	return prior.Renamed(bundle) || m.due(m.leaf(ctx), m.CACertificate, m.Early, bundle, now)
}

func (m *kubeconfigResourceModel) renew(
	ctx context.Context, bundle *pki.Bundle, now time.Time, diags *diag.Diagnostics,
) string {
	return m.issue(ctx, bundle, now, credentialLife, diags)
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

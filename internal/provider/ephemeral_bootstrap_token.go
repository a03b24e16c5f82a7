package provider

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/boolvalidator"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// bootstrapTokenEphemeral is a bootstrap token that exists while a plan or an apply uses it. It is created when
// Terraform opens it and revoked when Terraform closes it.
type bootstrapTokenEphemeral struct{ configured }

var (
	_ ephemeral.EphemeralResource              = (*bootstrapTokenEphemeral)(nil)
	_ ephemeral.EphemeralResourceWithConfigure = (*bootstrapTokenEphemeral)(nil)
	_ ephemeral.EphemeralResourceWithClose     = (*bootstrapTokenEphemeral)(nil)
)

type bootstrapTokenEphemeralModel struct {
	ApplyTime types.String `tfsdk:"apply_time"`
	bootstrapTokenModel
}

// openTokens are the tokens that this process has created and has to revoke, by ID.
type openTokens struct{ byID sync.Map }

// openToken is how a token is revoked. It stays in this process, because the bundle has keys.
type openToken struct {
	bundle    *pki.Bundle
	registrar controlplane.Registrar
	expires   string
}

func newBootstrapTokenEphemeral() ephemeral.EphemeralResource { return &bootstrapTokenEphemeral{} }

func (e *bootstrapTokenEphemeral) Metadata(
	_ context.Context, _ ephemeral.MetadataRequest, resp *ephemeral.MetadataResponse,
) {
	resp.TypeName = tokenKind
}

// Configure takes the data of the provider's Configure.
func (e *bootstrapTokenEphemeral) Configure(
	_ context.Context, req ephemeral.ConfigureRequest, resp *ephemeral.ConfigureResponse,
) {
	e.setSession(req.ProviderData, &resp.Diagnostics)
}

func (e *bootstrapTokenEphemeral) Schema(
	_ context.Context, _ ephemeral.SchemaRequest, resp *ephemeral.SchemaResponse,
) {
	arguments := map[string]schema.Attribute{}
	for name, attribute := range clusterEndpointArguments() {
		arguments[name] = attribute
	}
	secret := func(description string) schema.Attribute {
		return schema.StringAttribute{Computed: true, Sensitive: true, MarkdownDescription: description}
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "A bootstrap token for `kubeadm join` that is created when Terraform opens it, and revoked " +
			"as soon as whatever uses it is done. It is never stored. Terraform opens ephemeral resources in plans too, " +
			"but only if all their arguments are known: with `apply_time = timestamp()`, a plan creates no token. If " +
			"Terraform is killed, the token ends with its `validity`.",
		Attributes: map[string]schema.Attribute{
			"pki": schema.StringAttribute{Required: true, Sensitive: true, MarkdownDescription: tokenPKI},
			"endpoint": schema.SingleNestedAttribute{
				Required: true, Attributes: arguments,
				MarkdownDescription: "The `registration` of the cluster's `kube_control_plane_endpoint`: " + tokenEndpoint + ".",
			},
			"apply_time": schema.StringAttribute{
				Optional: true, MarkdownDescription: "Set it to `timestamp()`, which is known in an apply and not in a plan, " +
					"so that only an apply creates a token. The value has no other meaning. Default: none; every plan creates " +
					"a token and revokes it when it ends.",
			},
			"description": schema.StringAttribute{Optional: true, MarkdownDescription: tokenDescribed + "."},
			"validity": schema.StringAttribute{
				Optional: true, Validators: []validator.String{durationValidator()}, MarkdownDescription: tokenValidity + ".",
			},
			"never_expires": schema.BoolAttribute{
				Optional: true, MarkdownDescription: tokenForever + ".",
				Validators: []validator.Bool{boolvalidator.ConflictsWith(path.MatchRoot("validity"))},
			},
			"token_id":       schema.StringAttribute{Computed: true, MarkdownDescription: tokenIDText},
			"token":          secret(tokenText),
			"join_command":   secret(tokenCommand),
			"discovery_file": secret(tokenFile),
			"ca_cert_hashes": schema.ListAttribute{
				Computed: true, ElementType: types.StringType, MarkdownDescription: caCertHashes,
			},
			"expires_at": schema.StringAttribute{Computed: true, MarkdownDescription: tokenExpiring},
		},
	}
}

// openTokenKey is the private key under which an open token is named.
const openTokenKey = "token_id"

// Open creates a token.
func (e *bootstrapTokenEphemeral) Open(
	ctx context.Context, req ephemeral.OpenRequest, resp *ephemeral.OpenResponse,
) {
	var model bootstrapTokenEphemeralModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() || !e.connected(&resp.Diagnostics) {
		return
	}
	bundle := e.session.mustBundle(model.PKI, &resp.Diagnostics)
	refuseExternalCA(bundle, &resp.Diagnostics)
	refuseForeignEndpoint(ctx, model.Endpoint, bundle, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := operation(ctx, tokenTime, tokenKind, bundle.ClusterName)
	defer cancel()
	model.create(ctx, e.session, bundle, time.Now(), &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	id, err := json.Marshal(model.TokenID.ValueString())
	if err == nil {
		resp.Diagnostics.Append(resp.Private.SetKey(ctx, openTokenKey, id)...)
	}
	registration := decodeEndpoint(ctx, model.Endpoint, bundle, &resp.Diagnostics)
	e.session.openTokens.byID.Store(model.TokenID.ValueString(), openToken{
		bundle: bundle, registrar: e.session.registrars.For(registration), expires: model.ExpiresAt.ValueString(),
	})
	resp.Diagnostics.Append(resp.Result.Set(ctx, model)...)
}

// Close revokes the token. A failure is a warning, because what used the token is done, and the token ends with its
// validity.
func (e *bootstrapTokenEphemeral) Close(
	ctx context.Context, req ephemeral.CloseRequest, resp *ephemeral.CloseResponse,
) {
	text, diags := req.Private.GetKey(ctx, openTokenKey)
	resp.Diagnostics.Append(diags...)
	var id string
	if json.Unmarshal(text, &id) != nil || id == "" {
		return // it was not created
	}
	value, known := e.session.openTokens.byID.LoadAndDelete(id)
	open, is := value.(openToken)
	if !known || !is {
		return
	}
	ctx, cancel := operation(ctx, tokenTime, tokenKind, open.bundle.ClusterName)
	defer cancel()
	if err := e.session.replicas.RevokeToken(ctx, open.bundle, open.registrar, id); err != nil {
		p := asProblem("Bootstrap token not revoked", err)
		p.Unchanged = "the token " + id + ", which is valid until " + orNever(open.expires) + "."
		p.Next = "delete it: kubeadm token delete " + id + "."
		resp.Diagnostics.AddWarning("Bootstrap token not revoked", p.Text())
	}
}

func orNever(expires string) string {
	if expires == "" {
		return "it is revoked"
	}
	return expires
}

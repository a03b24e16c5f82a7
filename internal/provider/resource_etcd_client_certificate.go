package provider

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// etcdClientResource is a client certificate of the etcd CA in the state, such as a monitoring system needs. It is
// issued once, and again when the authority changes or it is about to expire.
type etcdClientResource struct {
	configured
	now func() time.Time
}

var (
	_ resource.Resource                   = (*etcdClientResource)(nil)
	_ resource.ResourceWithConfigure      = (*etcdClientResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*etcdClientResource)(nil)
	_ resource.ResourceWithValidateConfig = (*etcdClientResource)(nil)
)

type etcdClientModel struct {
	ID        types.String `tfsdk:"id"`
	PKI       types.String `tfsdk:"pki"`
	User      types.String `tfsdk:"user"`
	Validity  types.String `tfsdk:"validity"`
	Early     types.String `tfsdk:"early_renewal"`
	CA        types.String `tfsdk:"ca_certificate"`
	Client    types.String `tfsdk:"client_certificate"`
	Key       types.String `tfsdk:"client_key"`
	ExpiresAt types.String `tfsdk:"expires_at"`
	SealedFor types.Set    `tfsdk:"sealed_for"`
}

func newEtcdClientResource() resource.Resource { return &etcdClientResource{now: time.Now} }

func (r *etcdClientResource) Metadata(
	_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse,
) {
	resp.TypeName = req.ProviderTypeName + "_etcd_client_certificate"
}

func (r *etcdClientResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A client certificate of the etcd CA, which is stored in the state, including its private " +
			"key. etcd has one CA for all clients, without users: whoever has the key and reaches the client port (2379) of a " +
			"member reads and writes everything, all Secrets among it. It is for a monitoring system that reaches only the " +
			"port for metrics (`metrics.address` of `kube_etcd_member`, 2382; guide [Monitoring](../guides/monitoring.md)). " +
			"With the provider's `seal`, `client_key` is an age file. It cannot be imported: create a new one.",
		Attributes: map[string]schema.Attribute{
			"id": keptString("Fingerprint of the certificate."),
			"pki": schema.StringAttribute{Required: true, Sensitive: true, MarkdownDescription: kubeconfigPKI +
				" A change caused by a rotation of the etcd CA or a new seal renews the certificate in place; the bundle of " +
				"another cluster replaces it."},
			"user": schema.StringAttribute{
				Required:      true,
				Validators:    []validator.String{checked("user", machine.ValidateName)},
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
				MarkdownDescription: "Common name of the certificate, a DNS name such as `prometheus`. A change replaces " +
					"the certificate.",
			},
			"validity": schema.StringAttribute{
				Optional: true, Computed: true, Validators: []validator.String{durationValidator()},
				PlanModifiers: []planmodifier.String{sameDuration{}, stringplanmodifier.RequiresReplace()},
				Default:       stringdefault.StaticString("8760h"), MarkdownDescription: kubeconfigValidity +
					" Default `8760h`, one year. A change replaces the certificate.",
			},
			"early_renewal": schema.StringAttribute{
				Optional: true, Validators: []validator.String{durationValidator()},
				PlanModifiers: []planmodifier.String{sameDuration{}},
				MarkdownDescription: "How long before its expiry the certificate is renewed, such as `720h`; less " +
					"than `validity`. Default: a third of its lifetime. A plan within that time renews it in place. A change " +
					"renews it if it becomes due; otherwise it has no effect.",
			},
			"ca_certificate":     keptString("Certificates of the etcd CA that the client must trust, PEM."),
			"client_certificate": keptString(kubeconfigCert),
			"client_key": schema.StringAttribute{
				Computed: true, Sensitive: true, PlanModifiers: kept(), MarkdownDescription: kubeconfigKey,
			},
			"expires_at": keptString(kubeconfigExpiry),
			"sealed_for": sealedForSchema(),
		},
	}
}

// ValidateConfig rejects a certificate that would be due for renewal immediately.
func (r *etcdClientResource) ValidateConfig(
	ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	var model etcdClientModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	validateEarlyRenewal(model.Early, model.Validity, &resp.Diagnostics)
}

// ModifyPlan replaces the certificate when its cluster changes. It renews it in place when it is due, when a rotation
// has changed the authority, or when the seal has changed. A bundle that is not known yet may cause any of these.
func (r *etcdClientResource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	if req.Plan.Raw.IsNull() {
		return
	}
	var plan, state etcdClientModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	plan.SealedFor = r.session.sealedFor()
	bundle := r.session.bundle(plan.PKI, &resp.Diagnostics)
	warnExpiring(bundle, types.ObjectNull(nil), plan.Early, r.now(), &resp.Diagnostics)
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
		r.session.refuseLostBundle(ctx, state.PKI, plan.PKI, req.Private, &resp.Diagnostics)
		switch {
		case resp.Diagnostics.HasError():
			return
		case otherCluster(r.session.prior(state.PKI), bundle):
			resp.RequiresReplace = append(resp.RequiresReplace, path.Root("pki"))
		case bundle == nil || !plan.SealedFor.Equal(state.SealedFor) || plan.due(bundle, r.now()):
			plan.forget()
		}
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, plan)...)
}

func (m etcdClientModel) leaf() pki.Leaf { return pki.EtcdClient(m.User.ValueString()) }

// due reports whether the certificate has to be issued again.
func (m etcdClientModel) due(bundle *pki.Bundle, now time.Time) bool {
	early, _ := parseDuration(m.Early)
	certificate := m.Client.ValueString()
	return m.CA.ValueString() != bundle.Roots(pki.Etcd) ||
		len(bundle.Renewal(m.leaf(), certificate, early, now)) > 0 || len(bundle.Check(m.leaf(), certificate, now)) > 0
}

// forget plans that the values of the certificate are known after the apply.
func (m *etcdClientModel) forget() {
	m.ID, m.CA, m.Client = types.StringUnknown(), types.StringUnknown(), types.StringUnknown()
	m.Key, m.ExpiresAt = types.StringUnknown(), types.StringUnknown()
}

// keep copies the values of the state.
func (m *etcdClientModel) keep(state etcdClientModel) {
	m.ID, m.CA, m.Client, m.Key, m.ExpiresAt = state.ID, state.CA, state.Client, state.Key, state.ExpiresAt
}

// renew issues the certificate and seals its key.
func (r *etcdClientResource) renew(m *etcdClientModel, bundle *pki.Bundle, diags *diag.Diagnostics) {
	const summary = "etcd client certificate not issued"
	validity, _ := parseDuration(m.Validity)
	pair, err := bundle.Issue(m.leaf(), r.now(), validity)
	if errors.Is(err, pki.ErrExternal) {
		err = &problem.Problem{
			Summary: summary, Cause: err.Error(), Unchanged: problem.Nothing, Err: err,
			Next: "issue it with that CA, and omit this resource.",
		}
	}
	var info pki.Info
	if err == nil {
		info, err = pki.Inspect(pair.Certificate)
	}
	if err != nil {
		addError(diags, path.Root("user"), summary, err)
		return
	}
	m.ID, m.CA = types.StringValue(info.SHA256), types.StringValue(bundle.Roots(pki.Etcd))
	m.Client, m.Key = types.StringValue(pair.Certificate), types.StringValue(pair.PrivateKey)
	m.ExpiresAt = timeString(info.NotAfter)
	sealText(&m.Key, r.session.seal, diags)
}

func (r *etcdClientResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model etcdClientModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	bundle := r.session.mustBundle(model.PKI, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	r.renew(&model, bundle, &resp.Diagnostics)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
	}
}

// Read changes nothing: the certificate exists in the state only.
func (r *etcdClientResource) Read(context.Context, resource.ReadRequest, *resource.ReadResponse) {}

// Update does what the plan requires, and what the bundle requires, which is known by now.
func (r *etcdClientResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var model, state etcdClientModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	bundle := r.session.mustBundle(model.PKI, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	changes := model.Key.IsUnknown()
	model.keep(state)
	switch {
	case !changes: // as planned
	case model.due(bundle, r.now()):
		r.renew(&model, bundle, &resp.Diagnostics)
	case !model.SealedFor.Equal(state.SealedFor):
		text, err := r.session.seal.Open(model.Key.ValueString())
		if err != nil {
			addError(&resp.Diagnostics, path.Root("pki"), "Private key not opened", err)
			return
		}
		model.Key = types.StringValue(text)
		sealText(&model.Key, r.session.seal, &resp.Diagnostics)
	}
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
	}
}

// Delete drops the certificate. It stays valid until it expires, or until the etcd CA is rotated.
func (r *etcdClientResource) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {
}

// sealText seals a secret.
func sealText(secret *types.String, seal *pki.Seal, diags *diag.Diagnostics) {
	sealed, err := seal.Close(secret.ValueString())
	if err != nil {
		addError(diags, path.Root("pki"), "Private key not sealed", err)
		return
	}
	*secret = types.StringValue(sealed)
}

package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
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
	credentialResource[etcdClientModel, *etcdClientModel]
}

var (
	_ resource.Resource                   = (*etcdClientResource)(nil)
	_ resource.ResourceWithConfigure      = (*etcdClientResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*etcdClientResource)(nil)
	_ resource.ResourceWithValidateConfig = (*etcdClientResource)(nil)
)

type etcdClientModel struct {
	CA types.String `tfsdk:"ca_certificate"`
	credentialModel
	clientModel
}

func newEtcdClientResource() resource.Resource {
	r := &etcdClientResource{}
	r.now, r.secret = time.Now, "Private key"
	return r
}

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
			"validity":           credentialValidity("certificate"),
			"early_renewal":      credentialEarlyRenewal("it"),
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

func (m *etcdClientModel) issued() []*types.String {
	return []*types.String{&m.CA, &m.ClientCertificate, &m.ClientKey, &m.ExpiresAt}
}

func (m *etcdClientModel) secrets() []*types.String { return []*types.String{&m.ClientKey} }

// signature is empty: a certificate of an external signer needs no resource, see refuse.
func (m *etcdClientModel) signature(context.Context) signature { return signature{} }

func (m *etcdClientModel) leaf() pki.Leaf { return pki.EtcdClient(m.User.ValueString()) }

func (m *etcdClientModel) stale(_ context.Context, _, bundle *pki.Bundle, now time.Time) bool {
	return m.due(m.leaf(), m.CA, m.Early, bundle, now)
}

// stays reports whether the certificate stays in use: only a signer can issue another one, and it is still right. The
// client may have to trust other CAs.
func (m *etcdClientModel) stays(bundle *pki.Bundle, now time.Time) bool {
	return bundle.External(pki.Etcd) && len(bundle.Check(m.leaf(), m.ClientCertificate.ValueString(), now)) == 0
}

func (m *etcdClientModel) renew(
	_ context.Context, bundle *pki.Bundle, now time.Time, diags *diag.Diagnostics,
) string {
	fingerprint := m.ID.ValueString()
	if !m.stays(bundle, now) {
		_, info, err := m.certify(m.leaf(), bundle, now, credentialLife)
		if err != nil {
			m.refuse(err, diags)
			return ""
		}
		fingerprint = info.SHA256
	}
	m.CA = types.StringValue(bundle.Roots(pki.Etcd))
	return fingerprint
}

// refuse reports why no certificate is issued.
func (m *etcdClientModel) refuse(err error, diags *diag.Diagnostics) {
	const summary = "etcd client certificate not issued"
	if errors.Is(err, pki.ErrExternal) {
		err = &problem.Problem{
			Summary: summary, Cause: err.Error(), Unchanged: problem.Nothing, Err: err,
			Next: "issue it with that CA, and omit this resource.",
		}
	}
	addError(diags, path.Root("user"), summary, err)
}

// ModifyPlan also refuses a certificate that only a signer could issue.
func (r *etcdClientResource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	r.credentialResource.ModifyPlan(ctx, req, resp)
	if req.Plan.Raw.IsNull() || resp.Diagnostics.HasError() {
		return
	}
	var plan, state etcdClientModel
	resp.Diagnostics.Append(resp.Plan.Get(ctx, &plan)...)
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	}
	bundle := r.session.bundle(plan.PKI, &resp.Diagnostics)
	if bundle != nil && bundle.External(pki.Etcd) && plan.ClientKey.IsUnknown() && !state.stays(bundle, r.now()) {
		plan.refuse(fmt.Errorf("authority %s: %w", pki.Etcd, pki.ErrExternal), &resp.Diagnostics)
	}
}

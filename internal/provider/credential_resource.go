package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// credentialResource is the lifecycle of a client certificate in the state, with its private key. It is issued once,
// and again when its inputs change or it is about to expire. M is the resource's model. Each resource has its own
// schema, and issues its own content.
type credentialResource[M any, P credential[M]] struct {
	configured
	now    func() time.Time
	secret string // what contains the private key, first words of a diagnostic
}

// credential is a pointer to the model of such a resource.
type credential[M any] interface {
	*M
	client() *clientModel
	base() *credentialModel
	issued() []*types.String  // what renew sets, except the ID
	secrets() []*types.String // which of these contain the private key
	// signature describes the signed attribute; it is empty if the resource has none.
	signature(ctx context.Context) signature
	// stale reports whether the certificate has to be issued again with a bundle. prior is the one before, if known.
	stale(ctx context.Context, prior, bundle *pki.Bundle, now time.Time) bool
	// renew issues the certificate, or keeps it, and returns its fingerprint.
	renew(ctx context.Context, bundle *pki.Bundle, now time.Time, diags *diag.Diagnostics) string
}

// credentialModel has the attributes of a client certificate that only one in the state has.
type credentialModel struct {
	ID    types.String `tfsdk:"id"`
	Early types.String `tfsdk:"early_renewal"`
	// SealedFor shows in the plan that the seal has changed. Sealed text does not contain its
	// recipients.
	SealedFor types.Set `tfsdk:"sealed_for"`
}

func (m *credentialModel) base() *credentialModel { return m }

// clientModel has the attributes of a client certificate, in the state or not.
type clientModel struct {
	PKI               types.String `tfsdk:"pki"`
	User              types.String `tfsdk:"user"`
	Validity          types.String `tfsdk:"validity"`
	ClientCertificate types.String `tfsdk:"client_certificate"`
	ClientKey         types.String `tfsdk:"client_key"`
	ExpiresAt         types.String `tfsdk:"expires_at"`
}

func (m *clientModel) client() *clientModel { return m }

// certify issues a new certificate. standard is the validity if none is set.
func (m *clientModel) certify(
	leaf pki.Leaf, bundle *pki.Bundle, now time.Time, standard time.Duration,
) (pki.KeyPair, pki.Info, error) {
	validity, _ := parseDuration(m.Validity)
	if validity == 0 {
		validity = standard
	}
	pair, err := bundle.Issue(leaf, now, validity)
	if err != nil {
		return pki.KeyPair{}, pki.Info{}, err
	}
	info, err := pki.Inspect(pair.Certificate)
	if err != nil {
		return pki.KeyPair{}, pki.Info{}, err
	}
	m.ClientCertificate, m.ClientKey = types.StringValue(pair.Certificate), types.StringValue(pair.PrivateKey)
	m.ExpiresAt = timeString(info.NotAfter)
	return pair, info, nil
}

// due reports whether the certificate has to be issued again: it expires soon, it is not the one of the leaf, or
// clients trust other CAs than those of the bundle.
func (m *clientModel) due(leaf pki.Leaf, trusted, earlyRenewal types.String, bundle *pki.Bundle, now time.Time) bool {
	early, _ := parseDuration(earlyRenewal)
	certificate := m.ClientCertificate.ValueString()
	return trusted.ValueString() != bundle.Roots(leaf.Authority) ||
		len(bundle.Renewal(leaf, certificate, early, now)) > 0 || len(bundle.Check(leaf, certificate, now)) > 0
}

// credentialLife is the validity of a certificate in the state if none is set.
const credentialLife = 365 * 24 * time.Hour

func credentialValidity(noun string) schema.Attribute {
	return schema.StringAttribute{
		Optional: true, Computed: true, Validators: []validator.String{durationValidator()},
		PlanModifiers: []planmodifier.String{sameDuration{}, stringplanmodifier.RequiresReplace()},
		Default:       stringdefault.StaticString("8760h"), MarkdownDescription: kubeconfigValidity +
			" Default `8760h`, one year. A change replaces the " + noun + ".",
	}
}

func credentialEarlyRenewal(noun string) schema.Attribute {
	return schema.StringAttribute{
		Optional: true, Validators: []validator.String{durationValidator()},
		PlanModifiers: []planmodifier.String{sameDuration{}},
		MarkdownDescription: "How long before its expiry the certificate is renewed, such as `720h`; less " +
			"than `validity`. Default: a third of its lifetime. Within that time, a plan announces the renewal of " + noun +
			" in place, and the apply makes it. A change renews " + noun + " if it becomes due; otherwise it has no effect.",
	}
}

// ValidateConfig rejects a renewal that is due as soon as a certificate is issued.
func (r *credentialResource[M, P]) ValidateConfig(
	ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	var m P = new(M)
	resp.Diagnostics.Append(req.Config.Get(ctx, m)...)
	early, _ := parseDuration(m.base().Early)
	validity, _ := parseDuration(m.client().Validity)
	if validity == 0 {
		validity = credentialLife
	}
	if early >= validity && !m.client().Validity.IsUnknown() && !resp.Diagnostics.HasError() {
		addInvalid(&resp.Diagnostics, attributePath("early_renewal"), "Invalid early renewal",
			fmt.Errorf("early renewal %s is not less than the validity %s: a new certificate would be due immediately", early,
				validity))
	}
}

// ModifyPlan replaces the certificate when its cluster changes. It renews it in place when it is
// due, when a rotation has changed its inputs, or when the seal has changed. A bundle that is
// not known yet may cause any of these.
func (r *credentialResource[M, P]) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	if req.Plan.Raw.IsNull() {
		return
	}
	var plan, state P = new(M), new(M)
	resp.Diagnostics.Append(req.Plan.Get(ctx, plan)...)
	plan.base().SealedFor = r.session.sealedFor()
	bundle := r.session.bundle(plan.client().PKI, &resp.Diagnostics)
	prior := (*pki.Bundle)(nil)
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, state)...)
		prior = r.session.prior(state.client().PKI)
		r.session.refuseLostBundle(ctx, state.client().PKI, plan.client().PKI, req.Private, &resp.Diagnostics)
	}
	r.checkSigned(ctx, plan, prior, bundle, &resp.Diagnostics)
	signed := plan.signature(ctx).value
	warnExpiring(bundle, signed, plan.base().Early, r.now(), &resp.Diagnostics)
	if !req.State.Raw.IsNull() {
		switch {
		case resp.Diagnostics.HasError():
			return
		case otherCluster(prior, bundle):
			resp.RequiresReplace = append(resp.RequiresReplace, attributePath("pki"))
		case bundle == nil || !elementsKnown(ctx, signed) || !plan.base().SealedFor.Equal(state.base().SealedFor) ||
			plan.stale(ctx, prior, bundle, r.now()):
			r.forget(plan)
		}
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, plan)...)
}

// checkSigned rejects a certificate that needs a signer and was not signed.
func (r *credentialResource[M, P]) checkSigned(
	ctx context.Context, m P, prior, bundle *pki.Bundle, diags *diag.Diagnostics,
) {
	if r.issues(ctx, m, prior, bundle) {
		signed := m.signature(ctx)
		r.session.checkSigned(ctx, bundle, signed.value, signed.leaves, signed.at, r.now(), diags)
	}
}

// issues reports whether a certificate is issued, or was signed. One that is in the state stays in use, also if the key
// of the CA is held elsewhere from now on.
func (r *credentialResource[M, P]) issues(ctx context.Context, m P, prior, bundle *pki.Bundle) bool {
	return bundle == nil || prior == nil || !m.signature(ctx).value.IsNull() || m.stale(ctx, prior, bundle, r.now())
}

// forget plans that the values of the certificate are known after the apply.
func (r *credentialResource[M, P]) forget(m P) {
	m.base().ID = types.StringUnknown()
	for _, value := range m.issued() {
		*value = types.StringUnknown()
	}
}

// keep copies the values of the state.
func (r *credentialResource[M, P]) keep(m, state P) {
	m.base().ID = state.base().ID
	before := state.issued()
	for i, value := range m.issued() {
		*value = *before[i]
	}
}

// Create issues the certificate.
func (r *credentialResource[M, P]) Create(
	ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse,
) {
	var m P = new(M)
	resp.Diagnostics.Append(req.Plan.Get(ctx, m)...)
	bundle := r.session.mustBundle(m.client().PKI, &resp.Diagnostics)
	r.checkSigned(ctx, m, nil, bundle, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	r.renew(ctx, m, bundle, &resp.Diagnostics)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
	}
}

// renew issues the certificate and seals what contains its private key, which is sealed already if it stays.
func (r *credentialResource[M, P]) renew(ctx context.Context, m P, bundle *pki.Bundle, diags *diag.Diagnostics) {
	fingerprint := m.renew(ctx, bundle, r.now(), diags)
	if !diags.HasError() {
		m.base().ID = types.StringValue(fingerprint)
		r.reseal(m, diags)
	}
}

// seal seals what contains the private key.
func (r *credentialResource[M, P]) seal(m P, diags *diag.Diagnostics) {
	for _, secret := range m.secrets() {
		sealed, err := r.session.seal.Close(secret.ValueString())
		if err != nil {
			addError(diags, attributePath("pki"), "Private key not sealed", err)
			continue
		}
		*secret = types.StringValue(sealed)
	}
}

// reseal opens what contains the private key and seals it with the provider's current seal.
func (r *credentialResource[M, P]) reseal(m P, diags *diag.Diagnostics) {
	for _, secret := range m.secrets() {
		text, err := r.session.seal.Open(secret.ValueString())
		if err != nil {
			addError(diags, attributePath("pki"), r.secret+" not opened", err)
			return
		}
		*secret = types.StringValue(text)
	}
	r.seal(m, diags)
}

// Read changes nothing: the certificate exists in the state only.
func (r *credentialResource[M, P]) Read(context.Context, resource.ReadRequest, *resource.ReadResponse) {
}

// Update does what the plan requires, and what the bundle requires, which is known by now.
func (r *credentialResource[M, P]) Update(
	ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse,
) {
	var m, state P = new(M), new(M)
	resp.Diagnostics.Append(req.Plan.Get(ctx, m)...)
	resp.Diagnostics.Append(req.State.Get(ctx, state)...)
	bundle := r.session.mustBundle(m.client().PKI, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	changes, prior := m.client().ClientKey.IsUnknown(), r.session.prior(state.client().PKI)
	r.keep(m, state)
	r.checkSigned(ctx, m, prior, bundle, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	switch {
	case !changes: // as planned
	case m.stale(ctx, prior, bundle, r.now()):
		r.renew(ctx, m, bundle, &resp.Diagnostics)
	case !m.base().SealedFor.Equal(state.base().SealedFor):
		r.reseal(m, &resp.Diagnostics)
	}
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
	}
}

// Delete drops the certificate. It stays valid until it expires, or until its CA is rotated.
func (r *credentialResource[M, P]) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {
}

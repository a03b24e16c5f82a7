package provider

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// pkiBundleResource is the certificate authorities, the service-account keys
// and the encryption keys of one cluster. It lives in state alone: members and
// replicas issue their leaf certificates from it, straight onto their machines.
type pkiBundleResource struct {
	configured
	now func() time.Time
}

var (
	_ resource.Resource               = (*pkiBundleResource)(nil)
	_ resource.ResourceWithConfigure  = (*pkiBundleResource)(nil)
	_ resource.ResourceWithModifyPlan = (*pkiBundleResource)(nil)
)

type pkiBundleModel struct {
	ID             types.String `tfsdk:"id"`
	ClusterName    types.String `tfsdk:"cluster_name"`
	KeyAlgorithm   types.String `tfsdk:"key_algorithm"`
	Validity       types.String `tfsdk:"ca_validity"`
	Rotation       types.Object `tfsdk:"rotation"`
	Encryption     types.Object `tfsdk:"encryption"`
	CA             types.Object `tfsdk:"ca"`
	EtcdCA         types.Object `tfsdk:"etcd_ca"`
	FrontProxyCA   types.Object `tfsdk:"front_proxy_ca"`
	ServiceAccount types.Object `tfsdk:"service_account"`

	Bundle                  types.String `tfsdk:"bundle"`
	CACertificate           types.String `tfsdk:"ca_certificate"`
	EtcdCACertificate       types.String `tfsdk:"etcd_ca_certificate"`
	FrontProxyCACertificate types.String `tfsdk:"front_proxy_ca_certificate"`
	ServiceAccountPublicKey types.String `tfsdk:"service_account_public_key"`
	Fingerprints            types.Map    `tfsdk:"fingerprints"`
	ExpiresAt               types.Map    `tfsdk:"expires_at"`
	Stages                  types.Map    `tfsdk:"stages"`
	SealedFor               types.List   `tfsdk:"sealed_for"`
}

func newPKIBundleResource() resource.Resource { return &pkiBundleResource{now: time.Now} }

func (r *pkiBundleResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_pki_bundle"
}

func (r *pkiBundleResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = pkiBundleSchema()
}

// ModifyPlan takes the rotation in thought: what is refused is refused in the
// plan, and what a stage does not change stays known.
func (r *pkiBundleResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return
	}
	var plan, state pkiBundleModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() || r.session == nil {
		return
	}
	plan.SealedFor = r.session.sealedFor()
	switch {
	case !r.session.sealKnown || !elementsKnown(ctx, plan.Rotation) || !elementsKnown(ctx, plan.Encryption):
		plan.forget()
	case req.State.Raw.IsNull():
		r.planNew(ctx, plan, &resp.Diagnostics)
	default:
		resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
		r.planChange(ctx, &plan, state, req.Config, &resp.Diagnostics)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, plan)...)
}

// planNew refuses a beginning in the middle of a rotation.
func (r *pkiBundleResource) planNew(ctx context.Context, plan pkiBundleModel, diags *diag.Diagnostics) {
	for part, generation := range plan.generations(ctx, diags) {
		if err := pki.ValidateBeginning(part, generation); err != nil {
			addInvalid(diags, attributePath("rotation").AtName(part.Attribute()), "Rotation not possible", err)
		}
	}
	plan.encryption(ctx, diags)
	r.warnUnsealed(diags)
}

// planChange plans an update of the bundle that is there.
func (r *pkiBundleResource) planChange(ctx context.Context, plan *pkiBundleModel, state pkiBundleModel, config tfsdk.Config, diags *diag.Diagnostics) {
	before := r.session.bundle(state.Bundle, diags)
	if diags.HasError() {
		return
	}
	for _, words := range before.Expiring(leafLife, r.now()) {
		diags.AddWarning("Certificate authority ends soon", words+", and what it issues ends with it.\n"+
			"Next step: rotate it (rotation), stage by stage.")
	}
	keys, known := r.keysOf(ctx, config, diags)
	if !known || diags.HasError() {
		plan.forget()
		return
	}
	after := r.turn(ctx, *plan, keys, before, diags)
	if diags.HasError() {
		return
	}
	resealed := !plan.SealedFor.Equal(state.SealedFor)
	if plan.changes(before, after); resealed || plan.Bundle.IsUnknown() {
		plan.Bundle = types.StringUnknown()
		r.warnUnsealed(diags)
	}
	r.warnLast(before, after, diags)
}

// leafLife is a usual certificate's: an authority with less left shortens it.
const leafLife = 365 * 24 * time.Hour

// keysOf is the configuration, where write-only keys are, and whether what the
// user brings along is known.
func (r *pkiBundleResource) keysOf(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) (pkiBundleModel, bool) {
	var keys pkiBundleModel
	diags.Append(config.Get(ctx, &keys)...)
	known := elementsKnown(ctx, keys.ServiceAccount)
	for _, place := range keys.authorities() {
		known = known && elementsKnown(ctx, place.value)
	}
	return keys, known
}

// turn is the bundle after the change.
func (r *pkiBundleResource) turn(ctx context.Context, plan, keys pkiBundleModel, before *pki.Bundle, diags *diag.Diagnostics) *pki.Bundle {
	generations := plan.generations(ctx, diags)
	given := plan.given(ctx, keys, r.session.seal, diags)
	if diags.HasError() {
		return nil
	}
	for part, to := range generations {
		if err := pki.ValidateRotation(part, before.Generation(part), to); err != nil {
			addInvalid(diags, attributePath("rotation").AtName(part.Attribute()), "Rotation not possible", err)
		}
	}
	if diags.HasError() {
		return nil
	}
	options := plan.options(r.now())
	after, err := before.Rotate(generations, given, options)
	if err != nil {
		addInvalid(diags, attributePath("rotation"), "Rotation not possible", err)
		return nil
	}
	if err := after.Conflict(given); err != nil {
		addInvalid(diags, attributePath("rotation"), "Rotation needed", err)
		return nil
	}
	after.Algorithm = options.Algorithm
	return after
}

func (m pkiBundleModel) options(now time.Time) pki.Options {
	validity, _ := parseDuration(m.Validity)
	return pki.Options{
		ClusterName: m.ClusterName.ValueString(),
		Algorithm:   pki.Algorithm(m.KeyAlgorithm.ValueString()),
		Validity:    validity,
		Now:         now,
	}
}

func (r *pkiBundleResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model pkiBundleModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	keys, _ := r.keysOf(ctx, req.Config, &resp.Diagnostics)
	if !r.ready(&resp.Diagnostics) {
		return
	}
	options := model.options(r.now())
	options.Given = model.given(ctx, keys, r.session.seal, &resp.Diagnostics)
	options.Generations = model.generations(ctx, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	bundle, err := pki.Generate(options)
	if err != nil {
		addError(&resp.Diagnostics, attributePath("cluster_name"), "PKI bundle not generated", err)
		return
	}
	r.store(ctx, &model, bundle, &resp.State, &resp.Diagnostics)
}

// ready reports whether the seal is known and nothing has failed.
func (r *pkiBundleResource) ready(diags *diag.Diagnostics) bool {
	if r.session == nil || !r.session.sealKnown {
		addUnknownSettings(diags)
	}
	return !diags.HasError()
}

// Read has nothing to look at: the bundle exists in state only.
func (r *pkiBundleResource) Read(context.Context, resource.ReadRequest, *resource.ReadResponse) {}

// Update takes stages of rotations, and seals anew.
func (r *pkiBundleResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var model, state pkiBundleModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	keys, _ := r.keysOf(ctx, req.Config, &resp.Diagnostics)
	if !r.ready(&resp.Diagnostics) {
		return
	}
	before := r.session.bundle(state.Bundle, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	after := r.turn(ctx, model, keys, before, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	if !model.Bundle.IsUnknown() { // nothing of the bundle changes
		resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
		return
	}
	r.store(ctx, &model, after, &resp.State, &resp.Diagnostics)
}

// Delete forgets the bundle, which Terraform does by dropping the state.
func (r *pkiBundleResource) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {
}

// store puts the bundle, sealed, and what follows from it into the state.
func (r *pkiBundleResource) store(ctx context.Context, model *pkiBundleModel, b *pki.Bundle, state *tfsdk.State, diags *diag.Diagnostics) {
	text, err := b.Encode(r.session.seal)
	if err == nil {
		err = model.fill(b)
	}
	if err != nil {
		addError(diags, attributePath("bundle"), "PKI bundle not stored", err)
		return
	}
	model.Bundle, model.SealedFor = types.StringValue(text), r.session.sealedFor()
	diags.Append(state.Set(ctx, model)...)
}

// fill sets what can be read of the bundle.
func (m *pkiBundleModel) fill(b *pki.Bundle) error {
	fingerprints, expiry, stages := map[string]string{}, map[string]attr.Value{}, map[string]string{}
	for _, authority := range []pki.Authority{pki.Kubernetes, pki.Etcd, pki.FrontProxy} {
		info, err := pki.Inspect(b.Signing(authority))
		if err != nil {
			return err
		}
		fingerprints[string(authority)] = info.SHA256
		expiry[string(authority)] = timeString(info.NotAfter)
	}
	for part, generation := range b.Generations() {
		stages[part.Attribute()] = stageWords(part, pki.StageOf(generation))
	}
	m.ID = types.StringValue(b.ClusterID)
	m.CACertificate = types.StringValue(b.Roots(pki.Kubernetes))
	m.EtcdCACertificate = types.StringValue(b.Roots(pki.Etcd))
	m.FrontProxyCACertificate = types.StringValue(b.Roots(pki.FrontProxy))
	m.ServiceAccountPublicKey = types.StringValue(b.PublicKeys())
	m.Fingerprints, m.Stages = stringMap(fingerprints), stringMap(stages)
	m.ExpiresAt = types.MapValueMust(types.StringType, expiry)
	return nil
}

// stageWords tells a stage as its part's users know it.
func stageWords(p pki.Part, s pki.Stage) string {
	words := [...]string{"steady", "the next authority is trusted", "the next authority issues, the previous one is trusted"}
	switch p {
	case pki.ServiceAccountPart:
		words = [...]string{"steady", "the next key is published", "the next key signs, the previous one is accepted"}
	case pki.EncryptionPart:
		words = [...]string{"steady", "the next one is readable", "the next one writes, the previous one is readable"}
	}
	return words[s]
}

// changes plans what the change of the bundle leaves known. Keys are made when
// the change is applied, so what is introduced is known after it only.
func (m *pkiBundleModel) changes(before, after *pki.Bundle) {
	if before.Same(after, pki.Parts()...) && before.Algorithm == after.Algorithm {
		return
	}
	if err := m.fill(after); err != nil {
		m.forget()
		return
	}
	m.Bundle = types.StringUnknown()
	for part, value := range map[pki.Part]*types.String{
		pki.KubernetesPart: &m.CACertificate, pki.EtcdPart: &m.EtcdCACertificate,
		pki.FrontProxyPart: &m.FrontProxyCACertificate, pki.ServiceAccountPart: &m.ServiceAccountPublicKey,
	} {
		if g := after.Generation(part); g > before.Generation(part) && pki.StageOf(g) == pki.Introduced {
			*value = types.StringUnknown()
		}
	}
}

// forget plans that everything but the identity is known after the apply.
func (m *pkiBundleModel) forget() {
	m.Bundle, m.CACertificate, m.EtcdCACertificate = types.StringUnknown(), types.StringUnknown(), types.StringUnknown()
	m.FrontProxyCACertificate, m.ServiceAccountPublicKey = types.StringUnknown(), types.StringUnknown()
	m.Fingerprints, m.ExpiresAt, m.Stages = types.MapUnknown(types.StringType), types.MapUnknown(types.StringType), types.MapUnknown(types.StringType)
}

func (r *pkiBundleResource) warnUnsealed(diags *diag.Diagnostics) {
	if r.session.seal == nil {
		diags.AddWarning("Private keys are stored in the clear",
			"The provider has no seal: whoever can read the state or a plan file can read the keys of the cluster's authorities.\n"+
				"Next step: set seal on the provider, or keep the state where only those can read it who may rule the cluster.")
	}
}

// warnLast says what is refused once the last stage of a rotation is applied.
func (r *pkiBundleResource) warnLast(before, after *pki.Bundle, diags *diag.Diagnostics) {
	var lost []string
	for part, words := range map[pki.Part]string{
		pki.KubernetesPart:     "kubeconfigs and kubelets with certificates of the previous Kubernetes authority",
		pki.ServiceAccountPart: "service-account tokens that the previous key signed",
	} {
		if g := after.Generation(part); g > before.Generation(part) && pki.StageOf(g) == pki.Steady {
			lost = append(lost, words)
		}
	}
	if len(lost) > 0 {
		diags.AddWarning("Last stage of a rotation", fmt.Sprintf("After this apply these are refused: %s.\n"+
			"Next step: apply it when they have all been replaced.", strings.Join(lost, "; ")))
	}
}

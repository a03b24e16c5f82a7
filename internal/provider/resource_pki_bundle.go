package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// pkiBundleResource is the certificate authorities, the service-account keys and the encryption
// keys of one cluster. It exists in the state only. Members and replicas issue their leaf
// certificates from it directly onto their machines.
type pkiBundleResource struct {
	configured
	now func() time.Time
}

var (
	_ resource.Resource                = (*pkiBundleResource)(nil)
	_ resource.ResourceWithConfigure   = (*pkiBundleResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*pkiBundleResource)(nil)
	_ resource.ResourceWithImportState = (*pkiBundleResource)(nil)
)

type pkiBundleModel struct {
	ID             types.String `tfsdk:"id"`
	ClusterName    types.String `tfsdk:"cluster_name"`
	KeyAlgorithm   types.String `tfsdk:"key_algorithm"`
	Validity       types.String `tfsdk:"ca_validity"`
	Protection     types.Bool   `tfsdk:"deletion_protection"`
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
	SealedFor               types.Set    `tfsdk:"sealed_for"`
}

func newPKIBundleResource() resource.Resource { return &pkiBundleResource{now: time.Now} }

func (r *pkiBundleResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_pki_bundle"
}

func (r *pkiBundleResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = pkiBundleSchema()
}

func (r *pkiBundleResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model pkiBundleModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	keys, _ := r.keysOf(ctx, req.Config, &resp.Diagnostics)
	if !r.ready(&resp.Diagnostics) {
		return
	}
	options := model.options(r.now())
	options.Supplied = model.supplied(ctx, keys, r.session.seal, &resp.Diagnostics)
	options.Generations = model.generations(ctx, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	r.session.begin()
	bundle, err := pki.Generate(options)
	if err != nil {
		addError(&resp.Diagnostics, attributePath("cluster_name"), "PKI bundle not generated", err)
		return
	}
	r.store(ctx, &model, bundle, &resp.State, &resp.Diagnostics)
}

// ready reports whether the seal is known and no error has occurred.
func (r *pkiBundleResource) ready(diags *diag.Diagnostics) bool {
	if r.session == nil || !r.session.sealKnown {
		addUnknownSettings(diags)
	}
	return !diags.HasError()
}

// Read does not query any machine: the bundle exists in the state only. It is stored for
// resources that were imported without one.
func (r *pkiBundleResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var model pkiBundleModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if r.session != nil && allKnown(model.ID, model.Bundle) {
		r.session.bundles.keep(model.ID.ValueString(), model.Bundle.ValueString(), model.CACertificate.ValueString())
	}
}

// Update applies stages of rotations, and seals the keys again.
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
	if !model.Bundle.IsUnknown() { // the bundle does not change
		resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
		return
	}
	r.store(ctx, &model, after, &resp.State, &resp.Diagnostics)
}

// Delete drops the bundle: Terraform removes the state.
func (r *pkiBundleResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var model pkiBundleModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	model.refuseDeletion(&resp.Diagnostics)
}

// protected reports whether the cluster is protected from deletion.
func (m pkiBundleModel) protected() bool { return m.Protection.IsNull() || m.Protection.ValueBool() }

// refuseDeletion refuses to drop the keys of a cluster with deletion protection.
func (m pkiBundleModel) refuseDeletion(diags *diag.Diagnostics) {
	if m.protected() && !diags.HasError() {
		m.addProtected(diags, pki.AllowDeletion+" That does not change an object that Terraform calls deposed: write the "+
			"value of bundle of the object to keep, which terraform state pull prints, to a file, remove the resource with "+
			"terraform state rm, and terraform import it with the ID "+backupPrefix+"FILE.")
	}
}

// refuseReplacement refuses a plan that replaces a bundle which is protected in the state. With create_before_destroy,
// its keys would be replaced before Delete refuses.
func (m pkiBundleModel) refuseReplacement(protected bool, diags *diag.Diagnostics) {
	if protected && !diags.HasError() {
		m.addProtected(diags, "plan without replacing it (-replace, replace_triggered_by): rotation changes its keys; "+
			pki.AllowDeletion)
	}
}

func (m pkiBundleModel) addProtected(diags *diag.Diagnostics, next string) {
	diags.AddAttributeError(attributePath("deletion_protection"), "PKI bundle is protected from deletion",
		fmt.Sprintf("Cause: the bundle contains the keys of cluster %q, and deletion_protection is enabled.\n"+
			"Unchanged: nothing was changed.\nNext step: %s", m.ClusterName.ValueString(), next))
}

// store writes the sealed bundle and the values derived from it to the state.
func (r *pkiBundleResource) store(
	ctx context.Context, model *pkiBundleModel, b *pki.Bundle, state *tfsdk.State, diags *diag.Diagnostics,
) {
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

// fill sets the attributes that can be read from the bundle.
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

// stageWords returns the description of a stage for users of its part.
func stageWords(p pki.Part, s pki.Stage) string {
	words := [...]string{"steady", "the next CA is trusted", "the next CA issues, the previous one is trusted"}
	switch p {
	case pki.ServiceAccountPart:
		words = [...]string{"steady", "the next key is published", "the next key signs, the previous one is accepted"}
	case pki.EncryptionPart:
		words = [...]string{"steady", "the next key can decrypt", "the next key encrypts, the previous one can decrypt"}
	}
	return words[s]
}

package provider

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// pkiBundleResource is the three certificate authorities and the
// service-account keys of one cluster. It lives in state alone: members and
// replicas issue their leaf certificates from it, straight onto their machines.
type pkiBundleResource struct{}

var _ resource.Resource = (*pkiBundleResource)(nil)

type pkiBundleModel struct {
	ID                      types.String `tfsdk:"id"`
	ClusterName             types.String `tfsdk:"cluster_name"`
	KeyAlgorithm            types.String `tfsdk:"key_algorithm"`
	Validity                types.String `tfsdk:"ca_validity"`
	Bundle                  types.String `tfsdk:"bundle"`
	CACertificate           types.String `tfsdk:"ca_certificate"`
	EtcdCACertificate       types.String `tfsdk:"etcd_ca_certificate"`
	FrontProxyCACertificate types.String `tfsdk:"front_proxy_ca_certificate"`
	ServiceAccountPublicKey types.String `tfsdk:"service_account_public_key"`
	Fingerprints            types.Map    `tfsdk:"fingerprints"`
	ExpiresAt               types.Map    `tfsdk:"expires_at"`
}

func newPKIBundleResource() resource.Resource { return &pkiBundleResource{} }

func (r *pkiBundleResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_pki_bundle"
}

func (r *pkiBundleResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	replaced := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	resp.Schema = schema.Schema{
		MarkdownDescription: "The PKI of one cluster: the Kubernetes, etcd and front-proxy certificate authorities and the service-account keys, " +
			"as kubeadm would make them. It exists in state only; destroying it forgets the keys.",
		Attributes: map[string]schema.Attribute{
			"id": keptString("Random identifier of the cluster, made with the bundle."),
			"cluster_name": schema.StringAttribute{
				Required: true, PlanModifiers: replaced,
				Validators:          []validator.String{checked("cluster name", pki.ValidateClusterName)},
				MarkdownDescription: "Name of the cluster, as kubeconfigs show it. A change makes a new bundle, and with it a new cluster.",
			},
			"key_algorithm": schema.StringAttribute{
				Optional: true, Computed: true, PlanModifiers: replaced,
				Default: stringdefault.StaticString(string(pki.ECDSAP256)),
				Validators: []validator.String{stringvalidator.OneOf(
					string(pki.ECDSAP256), string(pki.ECDSAP384), string(pki.RSA2048), string(pki.RSA3072), string(pki.RSA4096))},
				MarkdownDescription: "Algorithm of every key, leaf certificates' included: `ECDSA-P256` (the default), `ECDSA-P384`, `RSA-2048`, `RSA-3072` or `RSA-4096`. " +
					"A change makes a new bundle, and with it a new cluster.",
			},
			"ca_validity": schema.StringAttribute{
				Optional: true, Computed: true, PlanModifiers: replaced,
				Default:             stringdefault.StaticString("87600h"),
				Validators:          []validator.String{durationValidator()},
				MarkdownDescription: "Life of the authorities. Default `87600h`, ten years, as kubeadm has it. A change makes a new bundle, and with it a new cluster.",
			},
			"bundle":                     schema.StringAttribute{Computed: true, Sensitive: true, PlanModifiers: kept(), MarkdownDescription: "All of it, private keys included, for the `pki` attribute of members, replicas and kubeconfigs."},
			"ca_certificate":             keptString("Certificate of the Kubernetes CA, PEM."),
			"etcd_ca_certificate":        keptString("Certificate of the etcd CA, PEM."),
			"front_proxy_ca_certificate": keptString("Certificate of the front-proxy CA, PEM."),
			"service_account_public_key": keptString("Public key that verifies service-account tokens, PEM."),
			"fingerprints":               keptMap("SHA-256 fingerprints of the authorities' certificates (`kubernetes`, `etcd`, `front-proxy`), hexadecimal."),
			"expires_at":                 keptMap("When the authorities' certificates (`kubernetes`, `etcd`, `front-proxy`) expire, RFC 3339."),
		},
	}
}

func (r *pkiBundleResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model pkiBundleModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	validity, _ := parseDuration(model.Validity)
	bundle, err := pki.Generate(pki.Options{
		ClusterName: model.ClusterName.ValueString(),
		Algorithm:   pki.Algorithm(model.KeyAlgorithm.ValueString()),
		Validity:    validity,
		Now:         time.Now(),
	})
	if err != nil {
		addError(&resp.Diagnostics, attributePath("cluster_name"), "PKI bundle not generated", err)
		return
	}
	if err := model.fill(bundle); err != nil {
		addError(&resp.Diagnostics, attributePath("bundle"), "PKI bundle not readable", err)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// Read has nothing to look at: the bundle exists in state only.
func (r *pkiBundleResource) Read(context.Context, resource.ReadRequest, *resource.ReadResponse) {}

// Update is never called: a change of any argument replaces the bundle.
func (r *pkiBundleResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	resp.State.Raw = req.Plan.Raw
}

// Delete forgets the bundle, which Terraform does by dropping the state.
func (r *pkiBundleResource) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {
}

// fill sets what follows from the bundle.
func (m *pkiBundleModel) fill(b *pki.Bundle) error {
	fingerprints, expiry := map[string]attr.Value{}, map[string]attr.Value{}
	for authority, pair := range map[pki.Authority]pki.KeyPair{pki.Kubernetes: b.CA, pki.Etcd: b.EtcdCA, pki.FrontProxy: b.FrontProxyCA} {
		info, err := pki.Inspect(pair.Certificate)
		if err != nil {
			return err
		}
		fingerprints[string(authority)] = types.StringValue(info.SHA256)
		expiry[string(authority)] = timeString(info.NotAfter)
	}
	text, err := b.Encode(nil)
	if err != nil {
		return err
	}
	m.ID = types.StringValue(b.ClusterID)
	m.Bundle = types.StringValue(text)
	m.CACertificate = types.StringValue(b.Roots(pki.Kubernetes))
	m.EtcdCACertificate = types.StringValue(b.Roots(pki.Etcd))
	m.FrontProxyCACertificate = types.StringValue(b.Roots(pki.FrontProxy))
	m.ServiceAccountPublicKey = types.StringValue(b.PublicKeys())
	m.Fingerprints = types.MapValueMust(types.StringType, fingerprints)
	m.ExpiresAt = types.MapValueMust(types.StringType, expiry)
	return nil
}

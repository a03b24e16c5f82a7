package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

type sealModel struct {
	Identities types.Set    `tfsdk:"identities"`
	Passphrase types.String `tfsdk:"passphrase"`
	Recipients types.Set    `tfsdk:"recipients"`
}

func sealSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "Encrypts every private key in the state and in plans with " +
			"[age](https://age-encryption.org). Default: none; the keys are sensitive attributes, which everyone " +
			"who can read the state can read. A change re-encrypts all keys in place and does not affect any " +
			"machine.",
		Attributes: map[string]schema.Attribute{
			"identities": schema.SetAttribute{
				Required: true, Sensitive: true, ElementType: types.StringType,
				MarkdownDescription: "Identities that open sealed keys: each is an age identity " +
					"(`AGE-SECRET-KEY-1…`), the content of an identity file, or an identity file that `age` " +
					"encrypted with a passphrase. A plan file contains the values of ordinary variables: read an " +
					"identity from a file, or pass it as an ephemeral variable.",
			},
			"passphrase": schema.StringAttribute{
				Optional: true, Sensitive: true,
				MarkdownDescription: "Passphrase of the encrypted `identities`. Default: none.",
			},
			"recipients": schema.SetAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "Recipients (`age1…`) for whom keys are sealed from now on; at least one " +
					"must belong to `identities`. Default: the recipients of `identities`. A change re-encrypts " +
					"all keys in place and does not affect any machine.",
			},
		},
	}
}

// decodeSeal reads the seal block. Without a block, the seal is nil and keys are stored in the
// clear.
func decodeSeal(ctx context.Context, object types.Object) (*pki.Seal, diag.Diagnostics) {
	if object.IsNull() {
		return nil, nil
	}
	var model sealModel
	diags := object.As(ctx, &model, basetypes.ObjectAsOptions{})
	identities := stringsOf(ctx, model.Identities, &diags)
	recipients := stringsOf(ctx, model.Recipients, &diags)
	if diags.HasError() {
		return nil, diags
	}
	seal, err := pki.NewSeal(identities, model.Passphrase.ValueString(), recipients)
	if err != nil {
		diags.AddAttributeError(path.Root("seal"), "Invalid seal", "Cause: "+err.Error()+"\nUnchanged: nothing "+
			"was changed.\nNext step: set the identities that open the keys in the state, and recipients of which "+
			"at least one belongs to these identities.")
	}
	return seal, diags
}

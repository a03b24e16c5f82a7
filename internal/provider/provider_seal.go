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
		MarkdownDescription: "Encrypts every private key in state and plan with [age](https://age-encryption.org). " +
			"Default: none, and they are sensitive attributes, readable by whoever can read the state. " +
			"A change encrypts everything again in place, and changes no machine.",
		Attributes: map[string]schema.Attribute{
			"identities": schema.SetAttribute{
				Required: true, Sensitive: true, ElementType: types.StringType,
				MarkdownDescription: "What opens sealed keys: each an age identity (`AGE-SECRET-KEY-1…`), the text of an identity file, or one that `age` has encrypted with a passphrase. " +
					"A plan file holds the values of ordinary variables: read an identity from a file, or give it by an ephemeral variable.",
			},
			"passphrase": schema.StringAttribute{
				Optional: true, Sensitive: true,
				MarkdownDescription: "Passphrase of the encrypted ones among `identities`. Default: none.",
			},
			"recipients": schema.SetAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "Who can open what is sealed from now on (`age1…`), one of `identities` among them. Default: the recipients of `identities`. " +
					"A change encrypts everything again in place, and changes no machine.",
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
		diags.AddAttributeError(path.Root("seal"), "Invalid seal", "Cause: "+err.Error()+"\nUnchanged: nothing was changed.\n"+
			"Next step: give the identities that open the keys in the state, and recipients that one of them belongs to.")
	}
	return seal, diags
}

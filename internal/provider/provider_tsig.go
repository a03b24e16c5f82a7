package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/dns"
)

type tsigKeyModel struct {
	Algorithm types.String `tfsdk:"algorithm"`
	Secret    types.String `tfsdk:"secret"`
	Cluster   types.String `tfsdk:"cluster_name"`
}

func tsigSchema() schema.Attribute {
	return schema.MapNestedAttribute{
		Optional: true,
		MarkdownDescription: "Keys for dynamic updates (TSIG), by their names, for endpoints with `dns`. They are never in " +
			"the state. Default: none. A change is shown as drift of the replicas, which get the new key without a restart.",
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"algorithm": schema.StringAttribute{
				Optional: true, Validators: []validator.String{stringvalidator.OneOf(dns.Algorithms()...)},
				MarkdownDescription: "`hmac-sha256`, `hmac-sha384` or `hmac-sha512`. Default `hmac-sha256`.",
			},
			"cluster_name": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "The `cluster_name` of the only cluster whose endpoint the key is for. Default: any. Set it " +
					"if the provider manages several clusters: a change of an etcd member uses the registration that its machine " +
					"has recorded, and a machine that was taken over could name the endpoint of another cluster.",
			},
			"secret": schema.StringAttribute{
				Required: true, Sensitive: true,
				MarkdownDescription: "The secret, base64, as `tsig-keygen` prints it. A plan file contains the values of " +
					"ordinary variables: read it from a file, or pass it as an ephemeral variable.",
			},
		}},
	}
}

// decodeTSIG returns the keys whose values are known.
func decodeTSIG(ctx context.Context, object types.Map) (map[string]dns.Key, diag.Diagnostics) {
	keys := map[string]dns.Key{}
	if object.IsNull() || object.IsUnknown() {
		return keys, nil
	}
	var models map[string]tsigKeyModel
	diags := object.ElementsAs(ctx, &models, false)
	for name, model := range models {
		if !allKnown(model.Secret) || model.Algorithm.IsUnknown() || model.Cluster.IsUnknown() {
			continue
		}
		key := dns.Key{
			Algorithm: dns.Algorithms()[0], Secret: model.Secret.ValueString(), ClusterName: model.Cluster.ValueString(),
		}
		if !model.Algorithm.IsNull() {
			key.Algorithm = model.Algorithm.ValueString()
		}
		if err := dns.ValidateKey(name, key); err != nil {
			diags.AddAttributeError(path.Root("tsig_keys").AtMapKey(name), "Invalid TSIG key", "Cause: "+err.Error()+
				"\nUnchanged: nothing was changed.\nNext step: use the name and the secret that tsig-keygen printed.")
		}
		keys[name] = key
	}
	return keys, diags
}

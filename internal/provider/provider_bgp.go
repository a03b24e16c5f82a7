package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/bgp"
)

func bgpPasswordsSchema() schema.Attribute {
	return schema.MapAttribute{
		Optional: true, Sensitive: true, ElementType: types.StringType,
		MarkdownDescription: "Passwords of BGP sessions (TCP MD5), by the names that `bgp.peers` and `kube_vip.peers` of " +
			"endpoints give. " +
			"They are never in the state. Default: none. A change is shown as drift of the replicas, whose sessions it " +
			"starts again. A plan file contains the values of ordinary variables: read them from files, or pass them " +
			"as an ephemeral variable.",
	}
}

// decodePasswords returns the passwords whose values are known.
func decodePasswords(ctx context.Context, object types.Map) (map[string]string, diag.Diagnostics) {
	passwords := map[string]string{}
	if object.IsNull() || object.IsUnknown() {
		return passwords, nil
	}
	var values map[string]types.String
	diags := object.ElementsAs(ctx, &values, false)
	for name, value := range values {
		if !allKnown(value) {
			continue
		}
		if err := bgp.ValidatePassword(value.ValueString()); err != nil {
			diags.AddAttributeError(path.Root("bgp_passwords").AtMapKey(name), "Invalid BGP password", "Cause: "+err.Error()+
				"\nUnchanged: nothing was changed.\nNext step: use another password on the router and here.")
		}
		passwords[name] = value.ValueString()
	}
	return passwords, diags
}

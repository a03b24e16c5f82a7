package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
)

// registrationModel is endpoint.Registration in Terraform's terms: what the
// endpoint gives and a replica takes.
type registrationModel struct {
	Address      types.String `tfsdk:"address"`
	Port         types.Int64  `tfsdk:"port"`
	Hosts        types.Map    `tfsdk:"hosts"`
	DrainTimeout types.String `tfsdk:"drain_timeout"`
	VerifyCA     types.Bool   `tfsdk:"verify_ca"`
}

var registrationTypes = map[string]attr.Type{
	"address":       types.StringType,
	"port":          types.Int64Type,
	"hosts":         types.MapType{ElemType: types.StringType},
	"drain_timeout": types.StringType,
	"verify_ca":     types.BoolType,
}

func decodeRegistration(ctx context.Context, object types.Object, diags *diag.Diagnostics) endpoint.Registration {
	var model registrationModel
	diags.Append(object.As(ctx, &model, basetypes.ObjectAsOptions{})...)
	drain, err := parseDuration(model.DrainTimeout)
	if err != nil {
		addError(diags, attributePath("endpoint.drain_timeout"), "Invalid duration", err)
	}
	return endpoint.Registration{
		Address:      model.Address.ValueString(),
		Port:         int(model.Port.ValueInt64()),
		Hosts:        stringMapOf(ctx, model.Hosts, diags),
		DrainTimeout: drain,
		VerifyCA:     model.VerifyCA.ValueBool(),
	}
}

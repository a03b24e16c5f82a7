package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
)

type haproxyModel struct {
	Hosts           types.Map    `tfsdk:"hosts"`
	Address6        types.String `tfsdk:"address6"`
	Further         types.List   `tfsdk:"additional_addresses"`
	Interface       types.String `tfsdk:"interface"`
	VirtualRouterID types.Int64  `tfsdk:"virtual_router_id"`
	VRRP            types.String `tfsdk:"vrrp"`
	InstallPackages types.Bool   `tfsdk:"install_packages"`
	HandOver        types.String `tfsdk:"hand_over"`
	Inherit         types.Bool   `tfsdk:"inherit"`
	Konnectivity    types.Object `tfsdk:"konnectivity"`
	Metrics         types.Object `tfsdk:"metrics"`
	LivenessProbe   types.Bool   `tfsdk:"liveness_probe"`
}

// balancers decodes the haproxy attribute. If it is unknown, all of the result is unknown.
func (m endpointModel) balancers(ctx context.Context, diags *diag.Diagnostics) haproxyModel {
	model := haproxyModel{Hosts: types.MapUnknown(types.StringType), Address6: types.StringUnknown()}
	model.Further = types.ListUnknown(types.StringType)
	model.Konnectivity = types.ObjectUnknown(tunnelTypes)
	model.Metrics = types.ObjectUnknown(balancerMetricsTypes)
	if allKnown(m.HAProxy) {
		diags.Append(m.HAProxy.As(ctx, &model, basetypes.ObjectAsOptions{})...)
	}
	return model
}

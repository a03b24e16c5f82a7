package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/kubevip"
)

// kubeVIPModel is the attribute kube_vip of an endpoint.
type kubeVIPModel struct {
	electionModel

	Targets     types.Map    `tfsdk:"targets"`
	ASN         types.Int64  `tfsdk:"asn"`
	Peers       types.List   `tfsdk:"peers"`
	HoldTime    types.String `tfsdk:"hold_time"`
	Propagation types.String `tfsdk:"propagation_time"`
}

// electionModel is endpoint.Election as Terraform attributes.
type electionModel struct {
	Mode          types.String `tfsdk:"mode"`
	Interface     types.String `tfsdk:"interface"`
	Program       types.String `tfsdk:"program"`
	SHA256        types.String `tfsdk:"sha256"`
	LeaseName     types.String `tfsdk:"lease_name"`
	LeaseDuration types.String `tfsdk:"lease_duration"`
}

var electionTypes = map[string]attr.Type{
	"mode": types.StringType, "interface": types.StringType, "program": types.StringType, "sha256": types.StringType,
	"lease_name": types.StringType, "lease_duration": types.StringType,
}

// kubeVIP decodes the kube_vip attribute, which is not null. known is false if a value is unknown.
func (m endpointModel) kubeVIP(ctx context.Context, diags *diag.Diagnostics) (model kubeVIPModel, known bool) {
	if !allKnown(m.KubeVIP) || !elementsKnown(ctx, m.KubeVIP) {
		return kubeVIPModel{}, false
	}
	diags.Append(m.KubeVIP.As(ctx, &model, basetypes.ObjectAsOptions{})...)
	return model, !diags.HasError()
}

// spec returns the part of the spec that the attribute describes. Values that the plan has not set yet are the
// defaults.
func (m kubeVIPModel) spec(ctx context.Context, diags *diag.Diagnostics) kubevip.Spec {
	e := m.election(path.Root("kube_vip"), diags)
	announcement := announcementModel{ASN: m.ASN, Peers: m.Peers, HoldTime: m.HoldTime, Propagation: m.Propagation}
	return kubevip.Spec{
		Targets: stringMapOf(ctx, m.Targets, diags), Mode: e.Mode, Interface: e.Interface, Program: e.Program,
		SHA256: e.SHA256, LeaseName: e.LeaseName, LeaseDuration: e.LeaseDuration,
		Announcement: announcement.announcement(ctx, path.Root("kube_vip"), diags),
	}
}

// election returns what the attributes describe.
func (m electionModel) election(at path.Path, diags *diag.Diagnostics) endpoint.Election {
	e := endpoint.Election{
		Mode: m.Mode.ValueString(), Interface: m.Interface.ValueString(), Program: m.Program.ValueString(),
		SHA256: m.SHA256.ValueString(), LeaseName: m.LeaseName.ValueString(),
	}
	if !m.LeaseDuration.IsNull() {
		duration, err := parseDuration(m.LeaseDuration)
		if err != nil {
			addInvalid(diags, at.AtName("lease_duration"), "Invalid duration", err)
		}
		e.LeaseDuration = duration
	}
	return e
}

// electionObject returns an election as the attribute of a registration.
func electionObject(ctx context.Context, e *endpoint.Election, diags *diag.Diagnostics) types.Object {
	if e == nil {
		return types.ObjectNull(electionTypes)
	}
	object, more := types.ObjectValueFrom(ctx, electionTypes, electionModel{
		Mode: types.StringValue(e.Mode), Interface: stringOrNull(e.Interface), Program: types.StringValue(e.Program),
		SHA256: stringOrNull(e.SHA256), LeaseName: stringOrNull(e.LeaseName), LeaseDuration: durationText(e.LeaseDuration),
	})
	diags.Append(more...)
	return object
}

// electionOf decodes the attribute kube_vip of a registration.
func electionOf(ctx context.Context, object types.Object, diags *diag.Diagnostics) *endpoint.Election {
	if object.IsNull() || object.IsUnknown() {
		return nil
	}
	var model electionModel
	diags.Append(object.As(ctx, &model, basetypes.ObjectAsOptions{})...)
	e := model.election(attributePath("endpoint.kube_vip"), diags)
	return &e
}

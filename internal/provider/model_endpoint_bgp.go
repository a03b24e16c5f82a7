package provider

import (
	"context"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/bgp"
)

// bgpModel is the attribute bgp of an endpoint.
type bgpModel struct {
	announcementModel

	Targets types.Map `tfsdk:"targets"`
}

// announcementModel is endpoint.Announcement as Terraform attributes.
type announcementModel struct {
	ASN         types.Int64  `tfsdk:"asn"`
	Peers       types.List   `tfsdk:"peers"`
	HoldTime    types.String `tfsdk:"hold_time"`
	BFDInterval types.String `tfsdk:"bfd_interval"`
	Propagation types.String `tfsdk:"propagation_time"`
	Packages    types.Bool   `tfsdk:"install_packages"` // null is true
}

type peerModel struct {
	Address  types.String `tfsdk:"address"`
	ASN      types.Int64  `tfsdk:"asn"`
	BFD      types.Bool   `tfsdk:"bfd"`
	Multihop types.Int64  `tfsdk:"multihop"`
	Password types.String `tfsdk:"password"`
	Targets  types.Set    `tfsdk:"targets"`
}

var (
	peerTypes = map[string]attr.Type{
		"address": types.StringType, "asn": types.Int64Type, "bfd": types.BoolType, "multihop": types.Int64Type,
		"password": types.StringType, "targets": types.SetType{ElemType: types.StringType},
	}
	announcementTypes = map[string]attr.Type{
		"asn": types.Int64Type, "peers": types.ListType{ElemType: types.ObjectType{AttrTypes: peerTypes}},
		"hold_time": types.StringType, "bfd_interval": types.StringType, "propagation_time": types.StringType,
		"install_packages": types.BoolType,
	}
)

// bgp decodes the bgp attribute, which is not null. known is false if a value is unknown.
func (m endpointModel) bgp(ctx context.Context, diags *diag.Diagnostics) (model bgpModel, known bool) {
	if !allKnown(m.BGP) || !elementsKnown(ctx, m.BGP) {
		return bgpModel{}, false
	}
	diags.Append(m.BGP.As(ctx, &model, basetypes.ObjectAsOptions{})...)
	return model, !diags.HasError()
}

// spec returns the part of the spec that the attribute describes. Values that the plan has not set
// yet are the defaults.
func (m bgpModel) spec(ctx context.Context, diags *diag.Diagnostics) bgp.Spec {
	announcement := m.announcement(ctx, path.Root("bgp"), diags)
	return bgp.Spec{
		Targets: stringMapOf(ctx, m.Targets, diags), ASN: announcement.ASN, Peers: announcement.Peers,
		HoldTime: announcement.HoldTime, BFDInterval: announcement.BFDInterval, Propagation: announcement.Propagation,
		KeepPackages: announcement.KeepPackages,
	}
}

// announcement returns what the attributes describe.
func (m announcementModel) announcement(
	ctx context.Context, at path.Path, diags *diag.Diagnostics,
) endpoint.Announcement {
	var peers []peerModel
	diags.Append(m.Peers.ElementsAs(ctx, &peers, false)...)
	duration := func(value types.String) time.Duration {
		if value.IsNull() {
			return 0
		}
		d, err := parseDuration(value)
		if err != nil {
			addInvalid(diags, at, "Invalid duration", err)
		}
		return d
	}
	a := endpoint.Announcement{
		ASN: uint32(m.ASN.ValueInt64()), HoldTime: duration(m.HoldTime),
		BFDInterval: duration(m.BFDInterval), Propagation: duration(m.Propagation),
		KeepPackages: allKnown(m.Packages) && !m.Packages.ValueBool(),
	}
	for _, p := range peers {
		a.Peers = append(a.Peers, endpoint.Peer{
			Address: p.Address.ValueString(), ASN: uint32(p.ASN.ValueInt64()), // the schema limits it
			BFD: p.BFD.ValueBool(), Multihop: int(p.Multihop.ValueInt64()), Password: p.Password.ValueString(),
			Targets: slices.Sorted(slices.Values(stringsOf(ctx, p.Targets, diags))),
		})
	}
	return a
}

func peerModels(peers []endpoint.Peer) []peerModel {
	var models []peerModel
	for _, p := range peers {
		models = append(models, peerModel{
			Address: types.StringValue(p.Address), ASN: types.Int64Value(int64(p.ASN)), BFD: trueOrNull(p.BFD),
			Multihop: intOrNull(p.Multihop), Password: stringOrNull(p.Password),
			Targets: setOrNull(p.Targets),
		})
	}
	return models
}

func setOrNull(items []string) types.Set {
	if len(items) == 0 {
		return types.SetNull(types.StringType)
	}
	return stringSet(items)
}

func trueOrNull(value bool) types.Bool {
	if !value {
		return types.BoolNull()
	}
	return types.BoolValue(true)
}

// announcementObject returns an announcement as the attribute of a registration.
func announcementObject(ctx context.Context, a *endpoint.Announcement, diags *diag.Diagnostics) types.Object {
	if a == nil {
		return types.ObjectNull(announcementTypes)
	}
	peers, more := types.ListValueFrom(ctx, types.ObjectType{AttrTypes: peerTypes}, peerModels(a.Peers))
	diags.Append(more...)
	installs := types.BoolNull()
	if a.KeepPackages {
		installs = types.BoolValue(false)
	}
	object, more := types.ObjectValueFrom(ctx, announcementTypes, announcementModel{
		ASN: types.Int64Value(int64(a.ASN)), Peers: peers, HoldTime: durationText(a.HoldTime),
		BFDInterval: durationText(a.BFDInterval), Propagation: durationText(a.Propagation), Packages: installs,
	})
	diags.Append(more...)
	return object
}

// announcementOf decodes the attribute bgp of a registration.
func announcementOf(ctx context.Context, object types.Object, diags *diag.Diagnostics) *endpoint.Announcement {
	if object.IsNull() || object.IsUnknown() {
		return nil
	}
	var model announcementModel
	diags.Append(object.As(ctx, &model, basetypes.ObjectAsOptions{})...)
	a := model.announcement(ctx, attributePath("endpoint.bgp"), diags)
	return &a
}

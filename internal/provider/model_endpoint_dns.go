package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/dns"
)

// dnsModel is the attribute dns of an endpoint.
type dnsModel struct {
	Zone            types.String `tfsdk:"zone"`
	Server          types.String `tfsdk:"server"`
	NameServers     types.List   `tfsdk:"name_servers"`
	TSIGKey         types.String `tfsdk:"tsig_key"`
	TTL             types.String `tfsdk:"ttl"`
	Targets         types.Map    `tfsdk:"targets"`
	CheckInterval   types.String `tfsdk:"check_interval"`
	CheckThreshold  types.Int64  `tfsdk:"check_threshold"`
	InstallPackages types.Bool   `tfsdk:"install_packages"`
	ProbeFrom       types.String `tfsdk:"probe_from"`
}

// zoneModel is endpoint.Zone as Terraform attributes.
type zoneModel struct {
	Name            types.String `tfsdk:"name"`
	Server          types.String `tfsdk:"server"`
	NameServers     types.List   `tfsdk:"name_servers"`
	TTL             types.String `tfsdk:"ttl"`
	TSIGKey         types.String `tfsdk:"tsig_key"`
	CheckInterval   types.String `tfsdk:"check_interval"`
	CheckThreshold  types.Int64  `tfsdk:"check_threshold"`
	InstallPackages types.Bool   `tfsdk:"install_packages"`
}

var zoneTypes = map[string]attr.Type{
	"name": types.StringType, "server": types.StringType, "name_servers": types.ListType{ElemType: types.StringType},
	"ttl": types.StringType, "tsig_key": types.StringType, "check_interval": types.StringType,
	"check_threshold": types.Int64Type, "install_packages": types.BoolType,
}

// dns decodes the dns attribute, which is not null. known is false if a value is unknown.
func (m endpointModel) dns(ctx context.Context, diags *diag.Diagnostics) (model dnsModel, known bool) {
	if !allKnown(m.DNS) || !elementsKnown(ctx, m.DNS) {
		return dnsModel{}, false
	}
	diags.Append(m.DNS.As(ctx, &model, basetypes.ObjectAsOptions{})...)
	return model, !diags.HasError()
}

// zone returns the zone that the attribute describes. Values that the plan has not set yet are the
// defaults.
func (m dnsModel) zone(ctx context.Context, diags *diag.Diagnostics) endpoint.Zone {
	orDefault := func(value types.String, standard string) types.String {
		if value.IsNull() {
			return types.StringValue(standard)
		}
		return value
	}
	z := endpoint.Zone{
		Name: m.Zone.ValueString(), TSIGKey: m.TSIGKey.ValueString(), CheckThreshold: int(m.CheckThreshold.ValueInt64()),
		InstallPackages: m.InstallPackages.IsNull() || m.InstallPackages.ValueBool(),
	}
	if m.CheckThreshold.IsNull() {
		z.CheckThreshold = defaultDNSThreshold
	}
	at := path.Root("dns")
	var err error
	if z.Server, err = dns.ServerAddress(m.Server.ValueString()); err != nil {
		addInvalid(diags, at.AtName("server"), "Invalid name server", err)
	}
	for _, server := range stringsOf(ctx, m.NameServers, diags) {
		address, err := dns.ServerAddress(server)
		if err != nil {
			addInvalid(diags, at.AtName("name_servers"), "Invalid name server", err)
		}
		z.NameServers = append(z.NameServers, address)
	}
	if z.TTL, err = parseDuration(orDefault(m.TTL, defaultTTL)); err != nil {
		addInvalid(diags, at.AtName("ttl"), "Invalid duration", err)
	}
	if z.CheckInterval, err = parseDuration(orDefault(m.CheckInterval, defaultDNSInterval)); err != nil {
		addInvalid(diags, at.AtName("check_interval"), "Invalid duration", err)
	}
	return z
}

// zoneObject returns a zone as the attribute of a registration.
func zoneObject(ctx context.Context, z *endpoint.Zone, diags *diag.Diagnostics) types.Object {
	if z == nil {
		return types.ObjectNull(zoneTypes)
	}
	servers := types.ListNull(types.StringType)
	if len(z.NameServers) > 0 {
		servers = stringList(z.NameServers)
	}
	object, more := types.ObjectValueFrom(ctx, zoneTypes, zoneModel{
		Name: types.StringValue(z.Name), Server: types.StringValue(z.Server), NameServers: servers,
		TTL: durationText(z.TTL), TSIGKey: types.StringValue(z.TSIGKey), CheckInterval: durationText(z.CheckInterval),
		CheckThreshold: types.Int64Value(int64(z.CheckThreshold)), InstallPackages: types.BoolValue(z.InstallPackages),
	})
	diags.Append(more...)
	return object
}

// zoneOf decodes the attribute zone of a registration.
func zoneOf(ctx context.Context, object types.Object, diags *diag.Diagnostics) *endpoint.Zone {
	if object.IsNull() || object.IsUnknown() {
		return nil
	}
	var model zoneModel
	diags.Append(object.As(ctx, &model, basetypes.ObjectAsOptions{})...)
	at := attributePath("endpoint.zone")
	ttl, err := parseDuration(model.TTL)
	if err != nil {
		addError(diags, at, "Invalid duration", err)
	}
	interval, err := parseDuration(model.CheckInterval)
	if err != nil {
		addError(diags, at, "Invalid duration", err)
	}
	z := &endpoint.Zone{
		Name: model.Name.ValueString(), Server: model.Server.ValueString(), TTL: ttl, CheckInterval: interval,
		TSIGKey: model.TSIGKey.ValueString(), CheckThreshold: int(model.CheckThreshold.ValueInt64()),
		InstallPackages: model.InstallPackages.ValueBool(), NameServers: stringsOf(ctx, model.NameServers, diags),
	}
	if err := dns.ValidateZone(*z); err != nil && !diags.HasError() {
		addError(diags, at, "Invalid zone", err)
	}
	return z
}

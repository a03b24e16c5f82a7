package provider

import (
	"cmp"
	"context"
	"net"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/external"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
)

// externalModel is the attribute external of an endpoint.
type externalModel struct {
	Targets     types.Map    `tfsdk:"targets"`
	TargetPort  types.Int64  `tfsdk:"target_port"`
	HealthCheck types.Object `tfsdk:"health_check"`
	ProbeFrom   types.String `tfsdk:"probe_from"`
	Hooks       types.Object `tfsdk:"hooks"`
}

type healthCheckModel struct {
	Interval  types.String `tfsdk:"interval"`
	Threshold types.Int64  `tfsdk:"threshold"`
	Healthy   types.Int64  `tfsdk:"healthy_threshold"` // null is Threshold
}

// externalBackendModel is what an external balancer needs.
type externalBackendModel struct {
	Targets     types.Map          `tfsdk:"targets"`
	HealthCheck backendHealthModel `tfsdk:"health_check"`
}

type backendHealthModel struct {
	Protocol  types.String `tfsdk:"protocol"`
	Path      types.String `tfsdk:"path"`
	TLSName   types.String `tfsdk:"tls_name"`
	Interval  types.String `tfsdk:"interval"`
	Threshold types.Int64  `tfsdk:"threshold"`
	Healthy   types.Int64  `tfsdk:"healthy_threshold"`
}

var externalBackendTypes = map[string]attr.Type{
	"targets": types.MapType{ElemType: types.StringType},
	"health_check": types.ObjectType{AttrTypes: map[string]attr.Type{
		"protocol": types.StringType, "path": types.StringType, "tls_name": types.StringType,
		"interval": types.StringType, "threshold": types.Int64Type, "healthy_threshold": types.Int64Type,
	}},
}

// servingName is in the serving certificate of every replica.
const servingName = "kubernetes"

// external decodes the external attribute, which is not null. If it is unknown, all of the result
// is unknown.
func (m endpointModel) external(ctx context.Context, diags *diag.Diagnostics) externalModel {
	model := externalModel{
		Targets: types.MapUnknown(types.StringType), TargetPort: types.Int64Unknown(), ProbeFrom: types.StringUnknown(),
		Hooks: types.ObjectUnknown(hooksTypes),
	}
	if allKnown(m.External) {
		diags.Append(m.External.As(ctx, &model, basetypes.ObjectAsOptions{})...)
	}
	return model
}

// known reports whether all values are.
func (m externalModel) known(ctx context.Context) bool {
	return allKnown(m.Targets, m.TargetPort, m.HealthCheck) && !m.ProbeFrom.IsUnknown() && elementsKnown(ctx, m.Targets) &&
		elementsKnown(ctx, m.HealthCheck) && elementsKnown(ctx, m.Hooks)
}

// healthCheck returns the attribute health_check. Its values may be null before the plan has set
// their defaults.
func (m externalModel) healthCheck(ctx context.Context, diags *diag.Diagnostics) external.HealthCheck {
	check := healthCheckModel{}
	diags.Append(m.HealthCheck.As(ctx, &check, basetypes.ObjectAsOptions{})...)
	if check.Interval.IsNull() {
		check.Interval = types.StringValue(defaultCheckInterval)
	}
	if check.Threshold.IsNull() {
		check.Threshold = types.Int64Value(defaultCheckThreshold)
	}
	interval, err := parseDuration(check.Interval)
	if err != nil {
		addInvalid(diags, path.Root("external").AtName("health_check").AtName("interval"), "Invalid duration", err)
	}
	return external.HealthCheck{
		Interval: interval, Threshold: int(check.Threshold.ValueInt64()), Healthy: int(check.Healthy.ValueInt64()),
	}
}

// spec returns the part of the spec that the attribute describes.
func (m externalModel) spec(ctx context.Context, diags *diag.Diagnostics) external.Spec {
	return external.Spec{
		Targets: stringMapOf(ctx, m.Targets, diags), TargetPort: int(m.TargetPort.ValueInt64()),
		ProbeFrom: m.ProbeFrom.ValueString(), HealthCheck: m.healthCheck(ctx, diags),
		Hooks: hooksOf(ctx, m.Hooks, diags),
	}
}

// backend returns the attribute backend.
func (m endpointModel) backend(ctx context.Context, diags *diag.Diagnostics) types.Object {
	if m.External.IsNull() {
		return types.ObjectNull(externalBackendTypes)
	}
	model := m.external(ctx, diags)
	if !model.known(ctx) {
		return types.ObjectUnknown(externalBackendTypes)
	}
	spec := model.spec(ctx, diags)
	backends := map[string]string{}
	for name, address := range spec.Targets {
		backends[name] = net.JoinHostPort(address, strconv.Itoa(spec.TargetPort))
	}
	object, more := types.ObjectValueFrom(ctx, externalBackendTypes, externalBackendModel{
		Targets: stringMap(backends),
		HealthCheck: backendHealthModel{
			Protocol: types.StringValue("HTTPS"), Path: types.StringValue(targets.HealthCheckPath),
			TLSName: types.StringValue(servingName), Interval: durationText(spec.HealthCheck.Interval),
			Threshold: types.Int64Value(int64(spec.HealthCheck.Threshold)),
			Healthy:   types.Int64Value(int64(cmp.Or(spec.HealthCheck.Healthy, spec.HealthCheck.Threshold))),
		},
	})
	diags.Append(more...)
	return object
}

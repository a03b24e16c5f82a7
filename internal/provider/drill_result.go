package provider

import (
	"context"
	"maps"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
)

// drill runs a drill and sets its result.
func (m *drillResourceModel) drill(ctx context.Context, s *session, diags *diag.Diagnostics) {
	ctx, cancel := operation(ctx, drillTime, drillKind, m.Member.ValueString())
	defer cancel()
	s.begin()
	result := m.run(ctx, s, diags)
	if !diags.HasError() {
		m.drillResultModel = resultOf(result)
	}
}

// resultOf returns the result of a drill that succeeded.
func resultOf(d snapshot.Drill) drillResultModel {
	at := time.Unix(d.Finished, 0).UTC().Format(time.RFC3339)
	out := drillResultModel{
		ID: types.StringValue(d.Member + "/" + at), RanOn: types.StringValue(d.Member), CompletedAt: types.StringValue(at),
		RTO: types.Float64Value(d.RTO), RPO: types.Int64Null(), Source: types.StringValue(d.Source),
		Name: lineOrNull(d.Snapshot), SavedAt: types.StringNull(), Size: types.Int64Value(d.Size),
		Revision: types.Int64Value(d.Revision),
		SHA256:   types.StringValue(d.SHA256), Compared: types.BoolValue(d.Compared), Tokens: types.BoolValue(d.Tokens),
		Encrypted: types.BoolValue(d.Encrypted > 0),
	}
	if d.Saved > 0 {
		out.RPO, out.SavedAt = types.Int64Value(d.RPO), timeString(time.Unix(d.Saved, 0))
	}
	out.Steps = mapOf(types.Float64Type, d.Steps, func(v float64) attr.Value { return types.Float64Value(v) })
	out.Objects = mapOf(types.Int64Type, d.Objects, func(v int64) attr.Value { return types.Int64Value(v) })
	return out
}

// mapOf returns a map of elements of one type.
func mapOf[V any](of attr.Type, values map[string]V, element func(V) attr.Value) types.Map {
	elements := map[string]attr.Value{}
	for name, value := range maps.All(values) {
		elements[name] = element(value)
	}
	return types.MapValueMust(of, elements)
}

// unknownResult is the result of a drill that is to run.
func unknownResult() drillResultModel {
	text, number := types.StringUnknown(), types.Int64Unknown()
	return drillResultModel{
		ID: text, RanOn: text, CompletedAt: text, RTO: types.Float64Unknown(), RPO: number,
		Steps: types.MapUnknown(types.Float64Type), Source: text, Name: text, SavedAt: text, Size: number, Revision: number,
		SHA256: text, Objects: types.MapUnknown(types.Int64Type), Compared: types.BoolUnknown(), Tokens: types.BoolUnknown(),
		Encrypted: types.BoolUnknown(),
	}
}

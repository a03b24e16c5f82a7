package provider

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
)

// runtimeErrors returns the errors with their attributes.
func runtimeErrors(diags diag.Diagnostics) string {
	var all []string
	for _, d := range diags.Errors() {
		if at, ok := d.(diag.DiagnosticWithPath); ok {
			all = append(all, at.Path().String()+": "+d.Detail())
		}
	}
	return strings.Join(all, "\n")
}

// TestValidateReplicaRuntime: the plan refuses what static pods cannot do, and names the attribute.
func TestValidateReplicaRuntime(t *testing.T) {
	resources := replicaHardening()["resources"].(schema.SingleNestedAttribute)
	limits := resources.Attributes["scheduler"].(schema.SingleNestedAttribute)
	groups := types.SetValueMust(types.StringType, []attr.Value{types.StringValue("kms")})
	pods := types.StringValue(component.StaticPod)
	patches := patchesSchema().(schema.SingleNestedAttribute)
	patch := func(text string) types.Object {
		return nested(t, patches, map[string]attr.Value{"scheduler": types.StringValue(text)})
	}
	for _, c := range []struct {
		name  string
		model replicaModel
		want  string
	}{
		{"default", replicaModel{}, ""},
		{"units", replicaModel{Runtime: types.StringValue(component.Systemd), Groups: groups}, ""},
		{"pods", replicaModel{Runtime: pods, ImageRepository: types.StringValue("registry.example.com/k8s")}, ""},
		{"unknown", replicaModel{Runtime: types.StringUnknown(), Groups: groups}, ""},
		{"images of units", replicaModel{ImageRepository: types.StringValue("registry.example.com")}, "image_repository: "},
		{"probe, as an import writes it", replicaModel{Runtime: pods, Liveness: types.BoolValue(true)}, ""},
		{"groups", replicaModel{Runtime: pods, Groups: groups}, "supplementary_groups: "},
		{"weights", replicaModel{Runtime: pods, Resources: nested(t, resources, map[string]attr.Value{
			"scheduler": nested(t, limits, map[string]attr.Value{"cpu_weight": types.Int64Value(200)}),
		})}, "resources: "},
		{"kubelet", replicaModel{Runtime: pods, ManageKubelet: types.BoolValue(true)}, ""},
		{"kubelet of units", replicaModel{ManageKubelet: types.BoolValue(true)}, "manage_kubelet: "},
		{"patch", replicaModel{Runtime: pods, Patches: patch("metadata: {labels: {team: a}}")}, ""},
		{"patch of no pod", replicaModel{Runtime: pods, Patches: patch("replicas: 2")}, "patches: "},
		{
			"patch of the image",
			replicaModel{Runtime: pods, Patches: patch("spec: {containers: [{name: kube-scheduler, image: a}]}")},
			"patches: ",
		},
		{"percent", replicaModel{Runtime: pods, Resources: nested(t, resources, map[string]attr.Value{
			"scheduler": nested(t, limits, map[string]attr.Value{"memory_min": types.StringValue("2%")}),
		})}, "resources: "},
	} {
		var diags diag.Diagnostics
		c.model.validateRuntime(t.Context(), &diags)
		c.model.validatePatches(t.Context(), &diags)
		if got := runtimeErrors(diags); (c.want == "") != (got == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestPlanReplicaRuntime: the plan says what changes hands when components move to another runtime.
func TestPlanReplicaRuntime(t *testing.T) {
	at := func(runtime types.String, version string) replicaModel {
		m := bareReplica()
		m.Runtime, m.Version = runtime, types.StringValue(version)
		return m
	}
	pods, named := types.StringValue(component.StaticPod), types.StringValue(component.Systemd)
	units := types.StringNull()
	for _, c := range []struct {
		plan, state replicaModel
		want        string
		refused     bool
	}{
		{at(pods, "1.36.3"), at(pods, "1.35.4"), "", false},
		{at(units, "1.36.3"), at(named, "1.36.3"), "", false},
		{at(named, "1.36.3"), at(units, "1.36.3"), "", false},
		{at(pods, "1.36.3"), at(units, "1.36.3"), "Root runs the pods", false},
		{at(units, "1.36.3"), at(pods, "1.36.3"), "for the users of the units", false},
		{at(units, "1.36.3"), at(pods, "1.35.4"), "change at once", true},
		{at(types.StringUnknown(), "1.36.3"), at(pods, "1.36.3"), "", false},
	} {
		var diags diag.Diagnostics
		c.plan.planRuntime(c.state, &diags)
		text := wordsOf(diags)
		if diags.HasError() != c.refused || !strings.Contains(text, c.want) || (text == "") != (c.want == "") {
			t.Errorf("%v after %v: %v", c.plan.Runtime, c.state.Runtime, diags)
		}
		changes := c.want != "" || c.plan.Version != c.state.Version || c.plan.Runtime.IsUnknown()
		if got := c.plan.affectsMachine(t.Context(), c.state, &session{}); got != changes {
			t.Errorf("%v after %v: the machine changes: %v", c.plan.Runtime, c.state.Runtime, got)
		}
	}
}

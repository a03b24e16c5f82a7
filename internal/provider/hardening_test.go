package provider

import (
	"reflect"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// nested returns a value of a nested attribute as Terraform passes it. Attributes that are not
// in values are null.
func nested(t *testing.T, attribute schema.Attribute, values map[string]attr.Value) types.Object {
	t.Helper()
	kind, ok := attribute.GetType().(types.ObjectType)
	if !ok {
		t.Fatalf("%v is no object", attribute.GetType())
	}
	all := map[string]attr.Value{}
	for name, of := range kind.AttrTypes {
		if all[name] = values[name]; all[name] == nil {
			var err error
			if all[name], err = of.ValueFromTerraform(t.Context(), tftypes.NewValue(of.TerraformType(t.Context()),
				nil)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return types.ObjectValueMust(kind.AttrTypes, all)
}

func TestAuditOf(t *testing.T) {
	for _, c := range []struct {
		name   string
		values map[string]attr.Value
		want   component.Audit
	}{
		{"nothing set", nil, component.Audit{}},
		{"on", map[string]attr.Value{"enabled": types.BoolValue(true)}, component.Audit{}},
		{"off", map[string]attr.Value{"enabled": types.BoolValue(false)}, component.Audit{Off: true}},
		{
			"all",
			map[string]attr.Value{
				"policy": types.StringValue("x"), "max_age_days": types.Int64Value(1),
				"max_backups": types.Int64Value(2), "max_size_mb": types.Int64Value(3),
			},
			component.Audit{Policy: "x", MaxAgeDays: 1, MaxBackups: 2, MaxSizeMB: 3},
		},
	} {
		if have := (replicaModel{Audit: nested(t, auditSchema(), c.values)}).audit(t.Context()); have != c.want {
			t.Errorf("%s: %+v", c.name, have)
		}
	}
	if have := (replicaModel{}).audit(t.Context()); have != (component.Audit{}) {
		t.Errorf("no audit at all: %+v", have)
	}
}

func TestAuthenticationOf(t *testing.T) {
	paths := types.SetValueMust(types.StringType, []attr.Value{types.StringValue("/version")})
	model := replicaModel{Authentication: nested(t, authenticationSchema(),
		map[string]attr.Value{"jwt": types.StringValue("[]"), "anonymous_paths": paths})}
	want := component.Authentication{JWT: "[]", AnonymousPaths: []string{"/version"}}
	if have := model.authentication(t.Context()); !reflect.DeepEqual(have, want) {
		t.Errorf("%+v", have)
	}
	if have := (replicaModel{}).authentication(t.Context()); !reflect.DeepEqual(have, component.Authentication{}) {
		t.Errorf("no authentication at all: %+v", have)
	}
}

func TestLimitsOf(t *testing.T) {
	limits := nested(t, limitsSchema("x"), map[string]attr.Value{
		"memory_max": types.StringValue("1G"),
		"cpu_quota":  types.StringValue("50%"),
		"memory_min": types.StringValue("10%"),
		"cpu_weight": types.Int64Value(1000),
		"io_weight":  types.Int64Value(200),
	})
	resources := nested(t, replicaHardening()["resources"], map[string]attr.Value{"scheduler": limits})
	have := (replicaModel{Resources: resources}).limits(t.Context())
	want := map[string]component.Limits{
		"kube-apiserver": {}, "kube-controller-manager": {},
		"kube-scheduler": {MemoryMax: "1G", CPUQuota: "50%", MemoryMin: "10%", CPUWeight: 1000, IOWeight: 200},
	}
	if !reflect.DeepEqual(have, want) {
		t.Errorf("%+v", have)
	}
	if have := (replicaModel{}).limits(t.Context()); len(have) != 0 {
		t.Errorf("no limits at all: %+v", have)
	}
	if have := limitsOf(t.Context(), types.ObjectNull(map[string]attr.Type{})); have != (systemd.Limits{}) {
		t.Errorf("a member without limits: %+v", have)
	}
}

// TestValidateHardening checks that unknown values are not errors, and that invalid known
// values are.
func TestValidateHardening(t *testing.T) {
	limits := func(high attr.Value) types.Object {
		return nested(t, limitsSchema("x"), map[string]attr.Value{"memory_high": high, "memory_max": types.StringValue("1G")})
	}
	audit := func(age attr.Value) types.Object {
		return nested(t, auditSchema(), map[string]attr.Value{"enabled": types.BoolValue(false), "max_age_days": age})
	}
	for _, c := range []struct {
		name  string
		model replicaModel
		wrong bool
	}{
		{"nothing", replicaModel{}, false},
		{
			"limits",
			replicaModel{Resources: nested(t, replicaHardening()["resources"],
				map[string]attr.Value{"apiserver": limits(types.StringValue("2G"))})},
			true,
		},
		{
			"more reserved than allowed",
			replicaModel{Resources: nested(t, replicaHardening()["resources"], map[string]attr.Value{
				"apiserver": nested(t, limitsSchema("x"), map[string]attr.Value{
					"memory_min": types.StringValue("2G"), "memory_max": types.StringValue("1G"),
				}),
			})},
			true,
		},
		{
			"limits not known",
			replicaModel{Resources: nested(t, replicaHardening()["resources"],
				map[string]attr.Value{"apiserver": limits(types.StringUnknown())})},
			false,
		},
		{"audit", replicaModel{Audit: audit(types.Int64Value(3))}, true},
		{"audit not known", replicaModel{Audit: audit(types.Int64Unknown())}, false},
		{
			"authentication",
			replicaModel{Authentication: nested(t, authenticationSchema(),
				map[string]attr.Value{"jwt": types.StringValue("{")})},
			true,
		},
		{
			"authentication not known",
			replicaModel{Authentication: nested(t, authenticationSchema(), map[string]attr.Value{"jwt": types.StringUnknown()})},
			false,
		},
	} {
		var diags diag.Diagnostics
		c.model.validateHardening(t.Context(), &diags)
		if diags.HasError() != c.wrong {
			t.Errorf("%s: %v", c.name, diags)
		}
	}
}

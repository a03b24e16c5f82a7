package provider

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// importedState returns the state of an import that set values.
func importedState(t *testing.T, of schema.Schema, values map[string]any) tfsdk.State {
	t.Helper()
	resp := &resource.ImportStateResponse{State: tfsdk.State{
		Schema: of,
		Raw:    tftypes.NewValue(of.Type().TerraformType(t.Context()), nil),
	}}
	for name, value := range values {
		importer{t.Context(), resp}.set(name, value)
	}
	if resp.Diagnostics.HasError() {
		t.Fatal(resp.Diagnostics)
	}
	return resp.State
}

func groupsIn(t *testing.T, state tfsdk.State) (groups types.Set) {
	t.Helper()
	if diags := state.GetAttribute(t.Context(), path.Root("supplementary_groups"), &groups); diags.HasError() {
		t.Fatal(diags)
	}
	return groups
}

func objectIn(t *testing.T, state tfsdk.State, name string) types.Object {
	t.Helper()
	var object types.Object
	if diags := state.GetAttribute(t.Context(), path.Root(name), &object); diags.HasError() {
		t.Fatal(diags)
	}
	return object
}

// inputSettings returns replicas whose settings together use every attribute.
func inputSettings(t *testing.T) map[string]replicaModel {
	t.Helper()
	null := func(a schema.Attribute) types.Object {
		return types.ObjectNull(a.GetType().(types.ObjectType).AttrTypes)
	}
	resources := replicaHardening()["resources"]
	limits := func(values map[string]attr.Value) attr.Value { return nested(t, limitsSchema("x"), values) }
	paths := func(of ...attr.Value) types.Set { return types.SetValueMust(types.StringType, of) }
	text := func(s string) types.String { return types.StringValue(s) }
	none := types.SetNull(types.StringType)
	return map[string]replicaModel{
		"nothing": {
			Groups: none, Audit: null(auditSchema()), Authentication: null(authenticationSchema()),
			Resources: null(resources),
		},
		"empty": {Groups: paths(), Audit: nested(t, auditSchema(), nil), Authentication: nested(t, authenticationSchema(),
			nil), Resources: nested(t, resources, nil)},
		"empty within": {
			Groups: none,
			Audit:  nested(t, auditSchema(), map[string]attr.Value{"policy": text("")}),
			Authentication: nested(t, authenticationSchema(), map[string]attr.Value{
				"anonymous_paths": paths(),
				"jwt":             text(""),
			}),
			Resources: nested(t, resources, map[string]attr.Value{"scheduler": limits(nil)}),
		},
		"defaults that are written out": {
			Groups: none,
			Audit: nested(t, auditSchema(), map[string]attr.Value{
				"enabled": types.BoolValue(true), "max_age_days": types.Int64Value(30), "max_backups": types.Int64Value(10),
				"max_size_mb": types.Int64Value(100),
			}),
			Authentication: nested(t, authenticationSchema(),
				map[string]attr.Value{"anonymous_paths": paths(text("/readyz"), text("/livez"))}),
			Resources: null(resources),
		},
		"all": {
			Groups: paths(text("kms"), text("hsm")),
			Audit: nested(t, auditSchema(), map[string]attr.Value{
				"policy": text("# ours\nkind: Policy\n"), "max_age_days": types.Int64Value(7), "max_backups": types.Int64Value(3),
				"max_size_mb": types.Int64Value(20),
			}),
			Authentication: nested(t, authenticationSchema(),
				map[string]attr.Value{
					"jwt":             text("- issuer: {url: \"https://a\"} # ours"),
					"anonymous_paths": paths(text("/version"), text("/api")),
				}),
			Resources: nested(t, resources, map[string]attr.Value{
				"apiserver":          limits(map[string]attr.Value{"memory_high": text("3G"), "memory_max": text("4096M")}),
				"controller_manager": limits(map[string]attr.Value{"memory_max": text("1G")}),
				"scheduler": limits(map[string]attr.Value{
					"cpu_quota": text("150%"), "memory_min": text("64M"), "cpu_weight": types.Int64Value(200),
					"io_weight": types.Int64Value(50),
				}),
			}),
		},
		"off": {
			Groups: none, Audit: nested(t, auditSchema(), map[string]attr.Value{"enabled": types.BoolValue(false)}),
			Authentication: null(authenticationSchema()), Resources: null(resources),
		},
	}
}

// observedOf returns what a machine shows of a replica with the settings of m. See the tests of
// package controlplane.
func observedOf(t *testing.T, m replicaModel) controlplane.Imported {
	t.Helper()
	got := controlplane.Imported{
		Audit: m.audit(t.Context()), Authentication: m.authentication(t.Context()), Limits: (&resourcesModel{}).limits(),
		Settings:            m.settings(t.Context()),
		SupplementaryGroups: slices.Sorted(slices.Values(m.groups(t.Context()))),
	}
	for component, limits := range m.limits(t.Context()) {
		got.Limits[component] = limits
	}
	if !got.SameAudit(component.Audit{Off: got.Audit.Off, Policy: got.Audit.Policy}) {
		return got
	}
	got.Audit.MaxAgeDays, got.Audit.MaxBackups, got.Audit.MaxSizeMB = 0, 0, 0 // a default is read as zero
	return got
}

// TestSettingsReadBack checks that an import returns the settings as they were configured.
func TestSettingsReadBack(t *testing.T) {
	for name, m := range inputSettings(t) {
		t.Run(name, func(t *testing.T) {
			input := settingsOfReplica(observedOf(t, m))
			state := importedState(t, replicaSchema(t.Context()), map[string]any{
				"audit":          input.Audit,
				"authentication": input.Authentication, "resources": input.Resources, "supplementary_groups": input.Groups,
			})
			if got := groupsIn(t, state); !got.Equal(m.Groups) {
				t.Errorf("supplementary_groups is read back as %s, want %s", got, m.Groups)
			}
			for attribute, want := range map[string]types.Object{
				"audit": m.Audit, "authentication": m.Authentication,
				"resources": m.Resources,
			} {
				if got := objectIn(t, state, attribute); !got.Equal(want) {
					t.Errorf("%s is read back as %s, want %s", attribute, got, want)
				}
			}
		})
	}
}

// TestSettingsChanged checks that a record is used only if it matches the machine, and that a
// machine without a record provides what it can.
func TestSettingsChanged(t *testing.T) {
	all := inputSettings(t)
	changed := observedOf(t, all["all"])
	changed.Settings = all["off"].settings(t.Context())
	without := observedOf(t, all["all"])
	without.Settings = json.RawMessage("{")
	for name, observed := range map[string]controlplane.Imported{
		"another record":        changed,
		"none that can be read": without,
	} {
		input := settingsOfReplica(observed)
		state := importedState(t, replicaSchema(t.Context()), map[string]any{
			"audit":          input.Audit,
			"authentication": input.Authentication, "resources": input.Resources, "supplementary_groups": input.Groups,
		})
		if got := groupsIn(t, state); !got.Equal(all["all"].Groups) {
			t.Errorf("%s: supplementary_groups is read as %s, want %s", name, got, all["all"].Groups)
		}
		for attribute, want := range map[string]types.Object{
			"audit":          all["all"].Audit,
			"authentication": all["all"].Authentication, "resources": all["all"].Resources,
		} {
			if got := objectIn(t, state, attribute); !got.Equal(want) {
				t.Errorf("%s: %s is read as %s, want %s", name, attribute, got, want)
			}
		}
	}
	bare := observedOf(t, all["nothing"])
	bare.Settings = all["all"].settings(t.Context())
	if input := settingsOfReplica(bare); input.text() != nil {
		t.Errorf("settings that are no more are read back: %s", input.text())
	}
}

func TestMemberLimitsReadBack(t *testing.T) {
	of := etcdMemberSchema(t.Context())
	kind := of.Attributes["resources"]
	limits := systemd.Limits{MemoryMax: "2G", CPUQuota: "150%", MemoryMin: "10%", IOWeight: 1000}
	set := nested(t, kind, map[string]attr.Value{
		"memory_max": types.StringValue("2G"),
		"cpu_quota":  types.StringValue("150%"),
		"memory_min": types.StringValue("10%"),
		"io_weight":  types.Int64Value(1000),
	})
	null := types.ObjectNull(kind.GetType().(types.ObjectType).AttrTypes)
	for _, c := range []struct {
		name     string
		observed systemd.Limits
		recorded types.Object
		want     types.Object
	}{
		{"nothing", systemd.Limits{}, null, null},
		{"empty", systemd.Limits{}, nested(t, kind, nil), nested(t, kind, nil)},
		{"limits", limits, set, set},
		{"limits, not recorded", limits, null, set},
		{"limits that are no more", systemd.Limits{}, set, null},
	} {
		observed := machine.Imported{
			Limits:   c.observed,
			Settings: etcdMemberModel{Resources: c.recorded}.settings(t.Context()),
		}
		state := importedState(t, of, map[string]any{"resources": limitsOfMember(observed)})
		if got := objectIn(t, state, "resources"); !got.Equal(c.want) {
			t.Errorf("%s: read as %s, want %s", c.name, got, c.want)
		}
	}
}

// TestWrittenUnknown checks that values may be unknown at any depth during a plan. An unknown
// value counts as not set.
func TestWrittenUnknown(t *testing.T) {
	resources := replicaHardening()["resources"]
	unknown := func(a schema.Attribute) types.Object {
		return types.ObjectUnknown(a.GetType().(types.ObjectType).AttrTypes)
	}
	paths := types.SetValueMust(types.StringType, []attr.Value{types.StringUnknown()})
	for name, m := range map[string]replicaModel{
		"objects": {
			Audit: unknown(auditSchema()), Authentication: unknown(authenticationSchema()),
			Resources: unknown(resources),
		},
		"attributes": {
			Audit: nested(t, auditSchema(), map[string]attr.Value{
				"enabled": types.BoolUnknown(),
				"policy":  types.StringUnknown(), "max_age_days": types.Int64Unknown(),
			}),
			Authentication: nested(t, authenticationSchema(), map[string]attr.Value{
				"jwt":             types.StringUnknown(),
				"anonymous_paths": types.SetUnknown(types.StringType),
			}),
			Resources: nested(t, resources, map[string]attr.Value{"apiserver": unknown(limitsSchema("x"))}),
		},
		"elements": {
			Audit:          nested(t, auditSchema(), nil),
			Authentication: nested(t, authenticationSchema(), map[string]attr.Value{"anonymous_paths": paths}),
			Resources: nested(t, resources,
				map[string]attr.Value{"apiserver": nested(t, limitsSchema("x"),
					map[string]attr.Value{"cpu_quota": types.StringUnknown()})}),
		},
	} {
		if audit, limits := m.audit(t.Context()), m.limits(t.Context()); audit != (component.Audit{}) ||
			limits[release.APIServer] != (component.Limits{}) {
			t.Errorf("%s: %+v, %+v", name, audit, limits)
		}
		if jwt := m.authentication(t.Context()).JWT; jwt != "" {
			t.Errorf("%s: %s", name, jwt)
		}
	}
}

// TestNullsWithin: a configuration is checked before its defaults are set, and may have null anywhere. What is omitted
// is valid, and what is required is an error with its reason.
func TestNullsWithin(t *testing.T) {
	replica := map[string]any{
		"name": "cp1", "host": map[string]any{"address": "10.0.0.11"}, "pki": "p", "version": "1.36.3",
		"etcd": []string{"https://10.0.0.11:2379"}, "runtime": "static_pod",
		"endpoint": map[string]any{
			"address": "10.0.0.100", "port": 6443, "hosts": map[string]any{"cp1": "10.0.0.11"}, "drain_timeout": "10s",
			"verify_ca": true,
		},
	}
	member := map[string]any{
		"name": "cp1", "host": map[string]any{"address": "10.0.0.11"}, "pki": "p", "version": "3.6.16",
		"peers": map[string]any{"cp1": "10.0.0.11"},
	}
	volumes := func(volume any) map[string]any {
		return with(replica, map[string]any{"extra_volumes": map[string]any{"apiserver": map[string]any{"x": volume}}})
	}
	bucket := func(more map[string]any) map[string]any {
		s3 := with(map[string]any{
			"endpoint": "https://s3.example.com", "bucket": "backups", "credentials_file": "/etc/s3",
		}, more)
		return with(member, map[string]any{"snapshots": map[string]any{"schedule": "hourly", "s3": s3}})
	}
	const replicas, members = "kube_control_plane_replica", "kube_etcd_member"
	for name, c := range map[string]struct {
		kind   string
		config map[string]any
		want   string
	}{
		"a volume with defaults": {
			replicas, volumes(map[string]any{"host_path": "/srv/x", "mount_path": "/srv/x"}), "",
		},
		"a volume without paths": {replicas, volumes(map[string]any{}), "host_path"},
		"no volume":              {replicas, volumes(nil), "host_path"},
		"no path": {replicas, with(replica, map[string]any{"authentication": map[string]any{
			"anonymous_paths": []any{nil},
		}}), "anonymous path"},
		"no mode of a lock": {members, bucket(map[string]any{"object_lock": map[string]any{"days": 1}}), "object_lock.mode"},
		"no recipient":      {members, bucket(map[string]any{"recipients": []any{nil}}), "recipient"},
		"no target of agents": {"kube_control_plane_endpoint", map[string]any{
			"address": "10.0.0.100", "pki": "p", "haproxy": map[string]any{
				"hosts": map[string]any{"cp1": "10.0.0.11"}, "konnectivity": map[string]any{"targets": map[string]any{"cp1": nil}},
			},
		}, "konnectivity target cp1"},
	} {
		if got := validated(t, c.kind, c.config); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

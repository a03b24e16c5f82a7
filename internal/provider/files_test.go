package provider

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

func fileValue(t *testing.T, values map[string]attr.Value) types.Object {
	t.Helper()
	kinds := map[string]attr.Type{}
	for name, attribute := range fileAttributes() {
		kinds[name] = attribute.GetType()
	}
	all := map[string]attr.Value{}
	for name, kind := range kinds {
		if all[name] = values[name]; all[name] == nil {
			var err error
			if all[name], err = kind.ValueFromTerraform(t.Context(), tftypes.NewValue(kind.TerraformType(t.Context()),
				nil)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return types.ObjectValueMust(kinds, all)
}

func filesValue(t *testing.T, files map[string]map[string]attr.Value) types.Map {
	t.Helper()
	elements := map[string]attr.Value{}
	for name, values := range files {
		elements[name] = fileValue(t, values)
	}
	return types.MapValueMust(fileValue(t, nil).Type(t.Context()), elements)
}

// filesConfig is a configuration with files alone.
func filesConfig(t *testing.T, files types.Map) tfsdk.Config {
	t.Helper()
	state := tfsdk.State{
		Schema: replicaSchema(t.Context()),
		Raw:    tftypes.NewValue(replicaSchema(t.Context()).Type().TerraformType(t.Context()), nil),
	}
	if diags := state.SetAttribute(t.Context(), path.Root("files"), files); diags.HasError() {
		t.Fatal(diags)
	}
	return tfsdk.Config(state)
}

func flagsOf(t *testing.T, args map[string]string) types.Object {
	t.Helper()
	return nested(t, replicaArguments()["extra_args"], map[string]attr.Value{"apiserver": stringMap(args)})
}

const webhookText = "users: [{name: a, user: {token: not-for-a-log}}]"

func TestValidateFiles(t *testing.T) {
	text := func(s string) map[string]attr.Value { return map[string]attr.Value{"content": types.StringValue(s)} }
	admission := map[string]string{"admission-control-config-file": component.ConfigFilePath("a.yaml")}
	for _, c := range []struct {
		name   string
		files  types.Map
		args   map[string]string
		errors string
		warns  string
	}{
		{"none", types.MapNull(fileValue(t, nil).Type(t.Context())), nil, "", ""},
		{"missing", types.MapNull(fileValue(t, nil).Type(t.Context())), admission, `there is no file "a.yaml"`, ""},
		{"named", filesValue(t, map[string]map[string]attr.Value{"a.yaml": text("x")}), admission, "", ""},
		{
			"not named", filesValue(t, map[string]map[string]attr.Value{"a.yaml": text("x"), "b.yaml": text("x")}), admission,
			"", "so no component reads it",
		},
		{
			"references a missing",
			filesValue(t, map[string]map[string]attr.Value{"a.yaml": text(component.ConfigFilePath("b.yaml"))}), admission, "",
			"which is not in files",
		},
		{"all unknown", types.MapUnknown(fileValue(t, nil).Type(t.Context())), admission, "", ""},
		{
			"content unknown", filesValue(t, map[string]map[string]attr.Value{"a.yaml": {"content": types.StringUnknown()}}),
			admission, "", "",
		},
		{
			"mode unknown",
			filesValue(t, map[string]map[string]attr.Value{"a.yaml": {
				"content": types.StringValue("x"),
				"mode":    types.StringUnknown(),
			}}), admission, "", "",
		},
		{"no content", filesValue(t, map[string]map[string]attr.Value{"a.yaml": nil}), admission, "it has no content", ""},
		{"both", filesValue(t, map[string]map[string]attr.Value{"a.yaml": {
			"content":    types.StringValue("x"),
			"content_wo": types.StringValue("y"),
		}}), admission, "both set", ""},
		{"empty", filesValue(t, map[string]map[string]attr.Value{"a.yaml": text("")}), admission, "it is empty", ""},
		{"name", filesValue(t, map[string]map[string]attr.Value{"../a.yaml": text("x")}), nil, "malformed file name", ""},
		{
			"restart",
			filesValue(t, map[string]map[string]attr.Value{"a.yaml": {
				"content": types.StringValue("x"),
				"restart": types.BoolValue(false),
			}}), admission, "at its start only", "",
		},
		{
			"closed health paths",
			filesValue(t, map[string]map[string]attr.Value{
				"a.yaml": text("kind: AuthenticationConfiguration\nanonymous: {enabled: false}\n"),
			}),
			map[string]string{"authentication-config": component.ConfigFilePath("a.yaml")},
			"anonymous.enabled = false", "",
		},
		{
			"elsewhere", types.MapNull(fileValue(t, nil).Type(t.Context())),
			map[string]string{"authentication-config": "/srv/login.yaml"},
			"", "which no plan reads",
		},
		{
			"write-only",
			filesValue(t, map[string]map[string]attr.Value{"a.yaml": {"content_wo": types.StringValue(webhookText)}}), admission,
			"", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var diags diag.Diagnostics
			replicaModel{Files: c.files, ExtraArgs: flagsOf(t, c.args)}.validateFiles(t.Context(), &diags)
			problems, warnings := words(diags.Errors()), words(diags.Warnings())
			if (problems == "") != (c.errors == "") || !strings.Contains(problems, c.errors) ||
				(warnings == "") != (c.warns == "") || !strings.Contains(warnings, c.warns) {
				t.Errorf("errors %q, warnings %q", problems, warnings)
			}
			if strings.Contains(problems+warnings, "not-for-a-log") {
				t.Error("a content leaks")
			}
		})
	}
}

func words(all diag.Diagnostics) string {
	var out []string
	for _, d := range all {
		out = append(out, d.Summary()+" "+d.Detail())
	}
	return strings.Join(out, "\n")
}

// TestPlanFiles: the digests follow from the configuration, write-only contents included.
func TestPlanFiles(t *testing.T) {
	digest := func(text string) attr.Value { return types.StringValue(component.ContentDigest(text)) }
	files := filesValue(t, map[string]map[string]attr.Value{
		"a": {"content": types.StringValue("a")}, "b": {"content_wo": types.StringValue(webhookText)},
		"c": {"content_wo": types.StringUnknown()},
	})
	var m replicaModel
	var diags diag.Diagnostics
	m.planFiles(t.Context(), filesConfig(t, files), nil, &diags)
	want := types.MapValueMust(types.StringType, map[string]attr.Value{
		"a": digest("a"), "b": digest(webhookText),
		"c": types.StringUnknown(),
	})
	if !m.FileDigests.Equal(want) || len(diags) != 0 {
		t.Errorf("%s, %v", m.FileDigests, diags)
	}
	m.planFiles(t.Context(), filesConfig(t, types.MapNull(files.ElementType(t.Context()))), nil, &diags)
	if !m.FileDigests.IsNull() {
		t.Errorf("no files: %s", m.FileDigests)
	}
	secret := filesValue(t, map[string]map[string]attr.Value{"a": {"content": types.StringValue("token: abc")}})
	for _, s := range []*session{nil, {}, {seal: &pki.Seal{}}} {
		var diags diag.Diagnostics
		m.planFiles(t.Context(), filesConfig(t, secret), s, &diags)
		if refused := s != nil && s.seal != nil; diags.HasError() != refused || len(diags) != 1 {
			t.Errorf("a secret, refused %t: %v", refused, diags)
		}
	}
}

// TestTakeWriteOnly: the apply takes the contents from the configuration, and refuses others
// than the planned ones.
func TestTakeWriteOnly(t *testing.T) {
	files := filesValue(t, map[string]map[string]attr.Value{"b": {
		"content_wo": types.StringValue(webhookText),
		"mode":       types.StringValue("0400"),
	}})
	planned := func(digest types.String) types.Map {
		return types.MapValueMust(types.StringType, map[string]attr.Value{"b": digest})
	}
	for _, c := range []struct {
		name   string
		digest types.String
		wrong  bool
	}{
		{"as planned", types.StringValue(component.ContentDigest(webhookText)), false},
		{"not known in the plan", types.StringUnknown(), false},
		{"another one", types.StringValue(component.ContentDigest("x")), true},
	} {
		var diags diag.Diagnostics
		// The plan has no write-only value.
		m := replicaModel{
			Files:       filesValue(t, map[string]map[string]attr.Value{"b": {"mode": types.StringValue("0400")}}),
			FileDigests: planned(c.digest),
		}
		m.takeWriteOnly(t.Context(), filesConfig(t, files), &diags)
		if diags.HasError() != c.wrong || strings.Contains(words(diags), "not-for-a-log") {
			t.Errorf("%s: %v", c.name, diags)
		}
		want := component.ConfigFile{
			Content: webhookText, SHA256: component.ContentDigest(webhookText), Mode: 0o400,
			WriteOnly: true,
		}
		if have := m.configFiles(t.Context())["b"]; have != want {
			t.Errorf("%s: %+v", c.name, have)
		}
	}
	read := replicaModel{
		Files:       filesValue(t, map[string]map[string]attr.Value{"b": nil}),
		FileDigests: planned(types.StringValue("ab")),
	}
	if have := read.configFiles(t.Context())["b"]; have != (component.ConfigFile{SHA256: "ab", WriteOnly: true}) {
		t.Errorf("a refresh: %+v", have)
	}
	if have := (replicaModel{}).configFiles(t.Context()); have != nil {
		t.Errorf("no files: %+v", have)
	}
}

// TestFilesChange: a changed write-only content touches the machine.
func TestFilesChange(t *testing.T) {
	plan, state := bareReplica(), bareReplica()
	state.FileDigests = stringMap(map[string]string{"a": "1"})
	plan.FileDigests = stringMap(map[string]string{"a": "2"})
	if !plan.affectsMachine(t.Context(), state, &session{}) {
		t.Error("a changed content does not touch the machine")
	}
	if plan.FileDigests = state.FileDigests; plan.affectsMachine(t.Context(), state, &session{}) {
		t.Error("the same content touches the machine")
	}
}

// TestFilesImported: an import sets arguments as they were configured, unless the machine has
// something else.
func TestFilesImported(t *testing.T) {
	input := filesValue(t, map[string]map[string]attr.Value{
		"a.yaml": {
			"content": types.StringValue("a"), "mode": types.StringValue("0600"),
			"owner": types.StringValue(release.APIServer), "restart": types.BoolValue(true),
		},
		"b.yaml": {"content": types.StringValue("b")},
		"c.conf": {"content_wo": types.StringValue("c"), "mode": types.StringValue("0400")},
	})
	m := replicaModel{Files: input}
	got := controlplane.Imported{ConfigFiles: map[string]component.ConfigFile{}}
	for name, mode := range map[string]uint32{"a.yaml": 0o600, "b.yaml": 0o600, "c.conf": 0o400} {
		content := name[:1]
		file := component.ConfigFile{Content: content, SHA256: component.ContentDigest(content), Owner: release.APIServer}
		if file.Mode = 0o600; mode == 0o400 {
			file.Mode, file.Content, file.WriteOnly = 0o400, "", true
		}
		got.ConfigFiles[name] = file
	}
	imported := func() (files, digests types.Map) {
		state := importedState(t, replicaSchema(t.Context()), nil)
		i := importer{t.Context(), &resource.ImportStateResponse{State: state}}
		i.files(got, m.fileSettings(t.Context()))
		if i.resp.Diagnostics.HasError() {
			t.Fatal(i.resp.Diagnostics)
		}
		var ignored diag.Diagnostics
		ignored.Append(i.resp.State.GetAttribute(t.Context(), path.Root("files"), &files)...)
		ignored.Append(i.resp.State.GetAttribute(t.Context(), path.Root("file_digests"), &digests)...)
		return files, digests
	}
	want := filesValue(t, map[string]map[string]attr.Value{
		"a.yaml": {
			"content": types.StringValue("a"), "mode": types.StringValue("0600"),
			"owner": types.StringValue(release.APIServer), "restart": types.BoolValue(true),
		},
		"b.yaml": {"content": types.StringValue("b")},
		"c.conf": {"mode": types.StringValue("0400")},
	})
	files, digests := imported()
	if !files.Equal(want) || !slices.Equal(slices.Sorted(maps.Keys(digests.Elements())),
		[]string{"a.yaml", "b.yaml", "c.conf"}) {
		t.Errorf("imported %s, %s", files, digests)
	}
	edited := got.ConfigFiles["b.yaml"]
	edited.Mode, edited.Owner = 0o444, "root"
	got.ConfigFiles["b.yaml"] = edited
	files, _ = imported()
	have := files.Elements()["b.yaml"].(types.Object).Attributes()
	if !have["mode"].Equal(types.StringValue("0444")) || !have["owner"].Equal(types.StringValue("root")) {
		t.Errorf("edited by hand: %s", have)
	}
	m, got.ConfigFiles = replicaModel{Files: types.MapNull(input.ElementType(t.Context()))}, nil
	if files, digests = imported(); !files.IsNull() || !digests.IsNull() {
		t.Errorf("no files: %s, %s", files, digests)
	}
}

package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
)

// fileModel is one of a replica's files. Write-only contents are in the configuration only.
type fileModel struct {
	Content   types.String `tfsdk:"content"`
	ContentWO types.String `tfsdk:"content_wo"`
	Mode      types.String `tfsdk:"mode"`
	Owner     types.String `tfsdk:"owner"`
	Restart   types.Bool   `tfsdk:"restart"`
}

// filesIn decodes a files attribute. known is false if a whole file is unknown.
func filesIn(ctx context.Context, value types.Map) (files map[string]fileModel, known bool) {
	if value.IsUnknown() {
		return nil, false
	}
	files = map[string]fileModel{}
	for name, element := range value.Elements() {
		object, ok := element.(types.Object)
		if !ok || object.IsUnknown() {
			return nil, false
		}
		var file fileModel
		if diags := object.As(ctx, &file, basetypes.ObjectAsOptions{}); diags.HasError() {
			panic("provider: the model does not match its schema: " + diags[0].Detail()) // tests decode every model
		}
		files[name] = file
	}
	return files, true
}

// supplied returns the content in a configuration, from whichever argument has it.
func (f fileModel) supplied() types.String {
	if f.Content.IsNull() {
		return f.ContentWO
	}
	return f.Content
}

// check returns why the contents of a file are invalid.
func (f fileModel) check() error {
	switch {
	case f.Content.IsNull() && f.ContentWO.IsNull():
		return errors.New("it has no content: set content, or content_wo for a secret")
	case !f.Content.IsNull() && !f.ContentWO.IsNull():
		return errors.New("content and content_wo are both set: set only one of them")
	}
	return nil
}

// file returns the file without its content.
func (f fileModel) file() component.ConfigFile {
	mode, _ := component.ParseConfigFileMode(f.Mode.ValueString()) // validated by the schema; null is the default
	return component.ConfigFile{
		Mode: mode, Owner: f.Owner.ValueString(), NoRestart: !f.Restart.IsNull() && !f.Restart.ValueBool(),
		WriteOnly: f.Content.IsNull(),
	}
}

// configFiles returns the files with what is known of their contents: while they are applied
// everything, otherwise the digests in the state.
func (m replicaModel) configFiles(ctx context.Context) map[string]component.ConfigFile {
	models, _ := filesIn(ctx, m.Files)
	if len(models) == 0 {
		return nil
	}
	files := map[string]component.ConfigFile{}
	for name, model := range models {
		file := model.file()
		file.Content = model.Content.ValueString()
		if content, applied := m.contents[name]; applied {
			file.Content = content
		}
		if sum, ok := m.FileDigests.Elements()[name].(types.String); ok {
			file.SHA256 = sum.ValueString()
		}
		files[name] = file
	}
	return files
}

// validateFiles checks the files of a configuration together with the flags that name them.
func (m replicaModel) validateFiles(ctx context.Context, diags *diag.Diagnostics) {
	models, known := filesIn(ctx, m.Files)
	if !known {
		return
	}
	files := map[string]component.ConfigFile{}
	for name, model := range models {
		if err := model.check(); err != nil {
			addInvalid(diags, path.Root("files").AtMapKey(name), "Invalid file", err)
		}
		if model.Mode.IsUnknown() || model.Owner.IsUnknown() || model.Restart.IsUnknown() {
			return
		}
		file := model.file()
		if content := model.supplied(); allKnown(content) {
			file.Content, file.SHA256 = content.ValueString(), component.ContentDigest(content.ValueString())
		}
		files[name] = file
	}
	if diags.HasError() || !elementsKnown(ctx, m.ExtraArgs) || !elementsKnown(ctx, m.RepeatedArgs) {
		return
	}
	extra := m.extraArgs(ctx, diags)
	if err := component.ValidateConfigFiles(files, extra); err != nil {
		addInvalid(diags, path.Root("files"), "Invalid files", err)
		return
	}
	warning, err := component.CheckSchedulerConfig(files, extra)
	if err != nil {
		addInvalid(diags, path.Root("files"), "Invalid files", err)
	}
	if warning != "" {
		diags.AddAttributeWarning(path.Root("files"), "Profiling of kube-scheduler is on", warning+
			"\nNext step: set enableProfiling: false in the file, unless you need it.")
	}
	if err := component.CheckAuthenticationConfig(files, extra); err != nil {
		addInvalid(diags, path.Root("files"), "Invalid files", err)
	}
	for _, warning := range component.UncheckedFiles(extra) {
		diags.AddAttributeWarning(path.Root("extra_args"), "File not checked", warning+"\nNext step: place it with files, "+
			"so that the plan checks it, or check it yourself.")
	}
	warnFiles(files, extra, diags)
}

// warnFiles warns of files that nothing names, and of files that another one names in vain.
func warnFiles(files map[string]component.ConfigFile, extra map[string]map[string]string, diags *diag.Diagnostics) {
	for _, name := range component.UnusedConfigFiles(files, extra) {
		diags.AddAttributeWarning(path.Root("files").AtMapKey(name), "File not used",
			fmt.Sprintf("No flag in extra_args and no other file references %s, so no component reads it.\nNext "+
				"step: reference it in a flag, or remove it from files.", component.ConfigFilePath(name)))
	}
	missing := component.MissingConfigFiles(files)
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		diags.AddAttributeWarning(path.Root("files").AtMapKey(name), "File references a missing file",
			fmt.Sprintf("Its content references %s in %s, which is not in files.\nNext step: add it to files, or "+
				"correct the content.", strings.Join(missing[name], ", "), component.FilesDir))
	}
}

// planFiles plans the digests of the files from the configuration, the only place with
// write-only contents.
func (m *replicaModel) planFiles(ctx context.Context, config tfsdk.Config, s *session, diags *diag.Diagnostics) {
	supplied := filesOf(ctx, config, diags)
	models, known := filesIn(ctx, supplied)
	switch {
	case !known:
		m.FileDigests = types.MapUnknown(types.StringType)
		return
	case supplied.IsNull():
		m.FileDigests = types.MapNull(types.StringType)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(models)) {
		if component.HoldsSecret(models[name].Content.ValueString()) {
			refuseSecret(name, s, diags)
		}
	}
	m.FileDigests = digestsOf(models)
}

// digestsOf returns the digests of contents; that of an unknown one is unknown.
func digestsOf(models map[string]fileModel) types.Map {
	digests := map[string]attr.Value{}
	for name, model := range models {
		if content := model.supplied(); content.IsUnknown() {
			digests[name] = types.StringUnknown()
		} else {
			digests[name] = types.StringValue(component.ContentDigest(content.ValueString()))
		}
	}
	return types.MapValueMust(types.StringType, digests)
}

// filesOf returns the files in a configuration.
func filesOf(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) types.Map {
	var files types.Map
	diags.Append(config.GetAttribute(ctx, path.Root("files"), &files)...)
	return files
}

// refuseSecret rejects a secret in a state that is sealed, and warns of it in any other.
func refuseSecret(name string, s *session, diags *diag.Diagnostics) {
	at, what := path.Root("files").AtMapKey(name).AtName("content"), "The content appears to contain a key, a "+
		"token or a password. It is shown in plans and stored unencrypted in the state."
	if s != nil && s.seal != nil {
		addInvalid(diags, at, "Secret in a sealed state", errors.New("content appears to contain a key, a token "+
			"or a password, and would be stored unencrypted in a sealed state: set content_wo"))
		return
	}
	diags.AddAttributeWarning(at, "Secret in the state", what+"\nNext step: set content_wo, which is never stored.")
}

// takeWriteOnly takes the contents from the configuration when it is applied. Contents that
// differ from the planned ones are not what was approved.
func (m *replicaModel) takeWriteOnly(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) {
	supplied := filesOf(ctx, config, diags)
	models, _ := filesIn(ctx, supplied)
	if diags.HasError() || supplied.IsNull() {
		m.FileDigests = types.MapNull(types.StringType)
		return
	}
	m.contents = map[string]string{}
	digests := digestsOf(models)
	for _, name := range slices.Sorted(maps.Keys(models)) {
		m.contents[name] = models[name].supplied().ValueString()
		planned, _ := m.FileDigests.Elements()[name].(types.String)
		if allKnown(planned) && !planned.Equal(digests.Elements()[name]) {
			addInvalid(diags, path.Root("files").AtMapKey(name), "File differs from the plan",
				errors.New("its content is not the planned content: content_wo must be the same at each "+
					"evaluation; plan again, and store generated content in a place that returns the same value "+
					"each time"))
		}
	}
	m.FileDigests = digests
}

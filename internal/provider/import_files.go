package provider

import (
	"context"
	"fmt"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
)

// fileSettings are the arguments of a file as a configuration writes them, without the content.
// Null is nil.
type fileSettings struct {
	Mode    *string `json:"mode,omitempty"`
	Owner   *string `json:"owner,omitempty"`
	Restart *bool   `json:"restart,omitempty"`
}

// fileSettings returns the arguments of the files for the record. Null is nil.
func (m replicaModel) fileSettings(ctx context.Context) map[string]fileSettings {
	models, known := filesIn(ctx, m.Files)
	if !known || m.Files.IsNull() {
		return nil
	}
	out := map[string]fileSettings{}
	for name, model := range models {
		out[name] = fileSettings{
			model.Mode.ValueStringPointer(), model.Owner.ValueStringPointer(),
			model.Restart.ValueBoolPointer(),
		}
	}
	return out
}

// files sets files and file_digests. An argument is as it was configured if that produces what
// the machine has, and otherwise as observed. A write-only content stays null.
func (i importer) files(observed controlplane.Imported, configured map[string]fileSettings) {
	if len(observed.ConfigFiles) == 0 && configured == nil {
		return
	}
	models, digests := map[string]fileModel{}, map[string]string{}
	for name, file := range observed.ConfigFiles {
		models[name] = observedFile(observed, name, configured[name])
		digests[name] = file.SHA256
	}
	i.set("files", models)
	i.set("file_digests", digests)
}

func observedFile(observed controlplane.Imported, name string, supplied fileSettings) fileModel {
	file := observed.ConfigFiles[name]
	model := fileModel{
		Content: types.StringValue(file.Content), ContentWO: types.StringNull(),
		Mode: types.StringPointerValue(supplied.Mode), Owner: types.StringPointerValue(supplied.Owner),
		Restart: types.BoolPointerValue(supplied.Restart),
	}
	if file.WriteOnly {
		model.Content = types.StringNull()
	}
	mode, _ := component.ParseConfigFileMode(orZero(supplied.Mode))
	described := component.ConfigFile{Mode: mode, Owner: orZero(supplied.Owner)}
	placed := component.PlacedFiles(component.Replica{
		ConfigFiles: map[string]component.ConfigFile{name: described},
		ExtraArgs:   maps.Clone(observed.ExtraArgs),
	})[0]
	if placed.Mode != file.Mode {
		model.Mode = types.StringValue(fmt.Sprintf("%04o", file.Mode))
	}
	if placed.Owner != file.Owner {
		model.Owner = lineValue(file.Owner)
	}
	return model
}

package controlplane

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

//go:embed rollback_files.sh
var rollbackFunctions host.Script

// keepScript copies each file to machine.KeptFilesDir that still is as the record says.
func keepScript(files map[string]machine.KeptFile) host.Script {
	script := rollbackFunctions
	for _, name := range slices.Sorted(maps.Keys(files)) {
		script += "keep " + host.Words(name, files[name].SHA256) + "\n"
	}
	return script
}

// restoreScript makes the files as they were. A file that changed since is copied back.
func restoreScript(files map[string]machine.KeptFile) host.Script {
	script := rollbackFunctions
	for _, name := range slices.Sorted(maps.Keys(files)) {
		k := files[name]
		script += "restore " + host.Words(name, k.SHA256, fmt.Sprintf("%04o", k.Mode), k.Owner) + "\n"
	}
	return script
}

// configFilesVars are the variables of the scripts.
func configFilesVars() map[string]string {
	return map[string]string{"files_dir": component.FilesDir, "kept_dir": machine.KeptFilesDir}
}

// keepConfigFiles copies the files of the user that a change alters, before it does.
func keepConfigFiles(ctx context.Context, s Spec, b machine.RollbackRecord) error {
	if len(b.Files) == 0 {
		return nil
	}
	if _, err := s.Host.Run(ctx, host.Command{Script: keepScript(b.Files), Vars: configFilesVars()}); err != nil {
		return fmt.Errorf("keep the files of replica %s for a rollback: %w", s.Machine(), err)
	}
	return nil
}

// restoreConfigFiles restores the files of the user. Files that the change added are removed
// with everything else that is not wanted.
func restoreConfigFiles(ctx context.Context, s Spec, b machine.RollbackRecord) error {
	if len(b.Files) == 0 {
		return nil
	}
	if _, err := s.Host.Run(ctx, host.Command{Script: restoreScript(b.Files), Vars: configFilesVars()}); err != nil {
		return fmt.Errorf("restore the files in %s: %w", component.FilesDir, err)
	}
	return nil
}

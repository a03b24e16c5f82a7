package controlplane

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// decideConfigFiles adds the files of the user to the changes. The list of them comes first. A
// file whose content is unknown stays if it is as it should be, as in a rollback.
func decideConfigFiles(s component.Replica, f machine.Observed, d *changes) error {
	var files []host.File
	for _, p := range component.PlacedFiles(s) {
		if p.Content == nil && machine.ConfigFileProblem(f.Facts.Files, p) != "" {
			return fmt.Errorf("the content of %s is unknown", p.Path)
		}
		if p.Content != nil {
			files = append(files, p.File())
		}
	}
	for _, name := range f.UnwantedConfigFiles(s) {
		d.remove = append(d.remove, component.ConfigFilePath(name))
	}
	d.filesList = machine.ExactFilesList(s, f)
	_, listed := f.Facts.Files[machine.FilesListPath]
	_, there := f.Facts.Dirs[component.FilesDir]
	switch list := machine.NewWrittenFiles(s, f); {
	case len(list.Files) > 0:
		d.files = slices.Concat([]host.File{list.File()}, files, d.files)
	case listed:
		d.remove = append(d.remove, machine.FilesListPath)
	}
	if len(s.ConfigFiles) > 0 {
		d.dirs = append(d.dirs, host.Dir{Path: component.FilesDir, Mode: 0o755})
	} else if there && f.Written != nil {
		d.remove = append(d.remove, component.FilesDir) // stays if it holds files of somebody else
	}
	return nil
}

// touchesConfigFiles reports whether the changes write or remove a file of the user.
func (d changes) touchesConfigFiles(f machine.Observed) bool {
	differs := func(file host.File) bool {
		state, there := f.Facts.Files[file.Path]
		return path.Dir(file.Path) == component.FilesDir &&
			(!there || state.SHA256 != machine.Digest(file.Content) || state.Mode.Perm() != file.Mode ||
				state.Owner != file.Owner)
	}
	return slices.ContainsFunc(d.files, differs) ||
		slices.ContainsFunc(d.remove, func(at string) bool { return path.Dir(at) == component.FilesDir })
}

// settleFilesList takes the names of removed files out of the list, so that a later file of
// somebody else with such a name is left alone.
func settleFilesList(ctx context.Context, s Spec, d changes) error {
	if d.filesList == nil {
		return nil
	}
	change := host.Change{Remove: []string{machine.FilesListPath}}
	if len(d.filesList.Files) > 0 {
		change = host.Change{Files: []host.File{d.filesList.File()}}
	}
	if _, err := s.Host.Apply(ctx, change); err != nil {
		return fmt.Errorf("finish the change of the files of replica %s: %w", s.Machine(), err)
	}
	return nil
}

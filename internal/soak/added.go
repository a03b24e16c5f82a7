package soak

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
)

// addedFiles are files for the directory of examples/control-plane, by what they add to it.
//
//go:embed added/*/*.tf
var addedFiles embed.FS

// addTo adds the files of that name to a workspace.
func addTo(dir, name string) error {
	files, err := fs.Sub(addedFiles, "added/"+name)
	if err == nil {
		err = os.CopyFS(dir, files)
	}
	if err != nil {
		return fmt.Errorf("add to the configuration: %w", err)
	}
	return nil
}

package simulated

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// Programs writes files in place of programs into a directory, in the layout of host.Source:
// simulated machines run no programs.
func Programs(directory string, all []host.Artifact) error {
	for _, a := range all {
		file := filepath.Join(directory, a.Product+"-v"+a.Version, a.Name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("make stand-ins: %w", err)
		}
		if err := os.WriteFile(file, []byte("stands for "+a.String()+"\n"), 0o755); err != nil { //nolint:gosec // a program
			return fmt.Errorf("make stand-ins: %w", err)
		}
	}
	return nil
}

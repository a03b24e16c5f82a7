package build

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// Checkout is the root of the checkout that the process runs in.
func Checkout() (string, error) {
	tools, err := toolsDir()
	return filepath.Dir(tools), err
}

// Provider builds the provider of this checkout into the file at path.
func Provider(ctx context.Context, path string) error {
	root, err := Checkout()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", path, ".")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build provider: %w\n%s", err, out)
	}
	return nil
}

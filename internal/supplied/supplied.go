// Package supplied takes programs that no registry of the tests has, and that are given by environment variables.
package supplied

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// KubeVIP is the environment variable with the path of kube-vip, as released or packed by xz.
const KubeVIP = "KUBE_VIP"

// Unpack returns the path of the program at path. One that is packed (.xz) is unpacked into dir.
func Unpack(ctx context.Context, path, dir string) (string, error) {
	if !strings.HasSuffix(path, ".xz") {
		return path, nil
	}
	var failed bytes.Buffer
	unpack := exec.CommandContext(ctx, "xz", "--decompress", "--stdout", path)
	unpack.Stderr = &failed
	program, err := unpack.Output()
	if err != nil {
		return "", fmt.Errorf("unpack %s: %w: %s", path, err, failed.String())
	}
	unpacked := filepath.Join(dir, strings.TrimSuffix(filepath.Base(path), ".xz"))
	return unpacked, os.WriteFile(unpacked, program, 0o755) //nolint:gosec // a program
}

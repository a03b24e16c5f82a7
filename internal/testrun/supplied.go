package testrun

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// KubeVIP is the environment variable with the path of kube-vip, as released or packed by xz. No registry that the
// tests use has it.
const KubeVIP = "KUBE_VIP"

// Supplied returns the path of a program that an environment variable names. A program that is packed (.xz) is
// unpacked. Without the variable, the test is skipped and listed, even if KUBE_TEST_REQUIRE is set.
func Supplied(t testing.TB, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		Elsewhere(t, variable+" is not set to the path of a program")
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	if !strings.HasSuffix(path, ".xz") {
		return path
	}
	var failed bytes.Buffer
	unpack := exec.CommandContext(t.Context(), "xz", "--decompress", "--stdout", path)
	unpack.Stderr = &failed
	program, err := unpack.Output()
	if err != nil {
		t.Fatalf("unpack %s: %v: %s", path, err, failed.String())
	}
	unpacked := filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(path), ".xz"))
	if err := os.WriteFile(unpacked, program, 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	return unpacked
}

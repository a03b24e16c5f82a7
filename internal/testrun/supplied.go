package testrun

import (
	"os"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/supplied"
)

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
	path, err := supplied.Unpack(t.Context(), path, t.TempDir())
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return path
}

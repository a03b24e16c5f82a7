package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/markdown"
)

// TestInstallFromCheckout runs the README's recipe in a temporary home, and then init
// of the provider's example, which must find the provider there.
func TestInstallFromCheckout(t *testing.T) {
	recipe := slices.IndexFunc(allBlocks(t), func(b markdown.Block) bool {
		return b.File == "README.md" && b.Mark == "run by TestInstallFromCheckout"
	})
	if recipe < 0 {
		t.Fatal("README.md has no recipe")
	}
	home := t.TempDir()
	environment := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "TF_")
	})
	for _, variable := range []string{"GOCACHE", "GOMODCACHE"} { // they are below HOME otherwise
		dir, err := exec.CommandContext(t.Context(), "go", "env", variable).Output()
		if err != nil {
			t.Fatal(err)
		}
		environment = append(environment, fmt.Sprintf("%s=%s", variable, strings.TrimSpace(string(dir))))
	}
	environment = append(environment, "HOME="+home, "CHECKPOINT_DISABLE=1")
	run := func(dir string, args ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), args[0], args[1:]...)
		command.Dir, command.Env = dir, environment
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
	run(root(t), "bash", "-euo", "pipefail", "-c", allBlocks(t)[recipe].Text)

	example, err := os.ReadFile(filepath.Join(root(t), "examples", "provider", "provider.tf"))
	if err != nil {
		t.Fatal(err)
	}
	program, err := build.Terraform(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), example, 0o600); err != nil {
		t.Fatal(err)
	}
	run(dir, program, "init", "-no-color", "-input=false")
}

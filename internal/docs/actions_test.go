package docs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
)

// TestActionConfigurations validates the examples of actions and queries that docs/ includes, with a
// Terraform that has them.
func TestActionConfigurations(t *testing.T) {
	base, err := os.ReadFile(filepath.Join("testdata", "base.tf"))
	if err != nil {
		t.Fatal(err)
	}
	cli := newCLI(t)
	if cli.program, err = build.Set(t.Context(), "terraform"); err != nil {
		t.Fatal(err)
	}
	for pattern, query := range map[string]bool{
		"actions/*/action.tf": false, "list-resources/*/list-resource.tfquery.hcl": true,
	} {
		files, err := filepath.Glob(filepath.Join(root(t), "examples", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("examples/%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			config := string(base)
			args := []string{"validate", "-no-color"}
			if query {
				args = append(args, "-query")
				write(t, filepath.Join(dir, "all.tfquery.hcl"), string(text))
			} else {
				config += string(text)
			}
			write(t, filepath.Join(dir, "main.tf"), config)
			for _, args := range [][]string{args, {"fmt", "-check", "-diff", "-no-color"}} {
				command := cli.command(t, args...)
				command.Dir = dir
				if out, err := command.CombinedOutput(); err != nil {
					t.Errorf("%s: %s: %v\n%s", file, args[0], err, out)
				}
			}
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

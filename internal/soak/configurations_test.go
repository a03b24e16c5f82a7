package soak

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
)

// TestConfigurations validates, with the CLI and the provider's schema, what the soak adds to the examples.
func TestConfigurations(t *testing.T) {
	c := newCLI(t)
	names, err := fs.ReadDir(addedFiles, "added")
	if err != nil || len(names) != 3 {
		t.Fatalf("files are added for %v, %v", names, err)
	}
	for _, name := range names {
		t.Run(name.Name(), func(t *testing.T) {
			s, err := controlPlaneSweep(nil, name.Name())
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(t.TempDir(), "example")
			copyExample(t, dir, s.config)
			if err := addTo(dir, name.Name()); err != nil {
				t.Fatal(err)
			}
			c.expectValid(t, dir)
		})
	}
	for _, k := range endpointKinds() {
		t.Run(k.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "examples", k.example)
			config, err := k.config(dir)
			if err != nil {
				t.Fatal(err)
			}
			copyExample(t, dir, config)
			if err := os.WriteFile(filepath.Join(dir, overrideFile), []byte(k.change()), 0o600); err != nil {
				t.Fatal(err)
			}
			c.expectValid(t, dir)
		})
	}
}

// cli is the CLI with the provider of the checkout.
type cli struct{ program, home string }

func newCLI(t *testing.T) cli {
	t.Helper()
	program, err := build.Terraform(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := cli{program, t.TempDir()}
	if err := build.Provider(t.Context(), ".", filepath.Join(c.home, "terraform-provider-kube")); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("provider_installation {\n  dev_overrides {\n    \"kubequorum/kube\" = %q\n  }\n}\n", c.home)
	if err := os.WriteFile(filepath.Join(c.home, "cli.tfrc"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// copyExample copies the configuration, without its tests.
func copyExample(t *testing.T, dir string, config fs.FS) {
	t.Helper()
	files, err := fs.Glob(config, "*.tf")
	if err != nil || len(files) == 0 || os.MkdirAll(dir, 0o700) != nil {
		t.Fatalf("the example has %d files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := fs.ReadFile(config, file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// expectValid fails unless the CLI accepts the configuration in a directory.
func (c cli) expectValid(t *testing.T, dir string) {
	t.Helper()
	for _, command := range []string{"get", "validate"} {
		run := exec.CommandContext(t.Context(), c.program, "-chdir="+dir, command, "-no-color")
		run.Env = append(os.Environ(), "HOME="+c.home, "TF_CLI_CONFIG_FILE="+filepath.Join(c.home, "cli.tfrc"),
			"CHECKPOINT_DISABLE=1")
		if out, err := run.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
}

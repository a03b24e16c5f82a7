package docs

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/markdown"
)

var (
	within   = regexp.MustCompile(`^in (provider|resource) (\w+)$`)
	fromFile = regexp.MustCompile(`^in (\S+/\S+\.(?:hcl|tf))$`)
	// released is the source of a module, which must have the tag of a release.
	released = regexp.MustCompile(
		`github\.com/kubequorum/terraform-provider-kube//(modules/[a-z-]+)\?ref=v[0-9]+\.[0-9]+\.[0-9]+`)
)

// TestConfigurations validates each configuration in the documents, and each example
// that docs/ includes, with the CLI and the provider's schema. testdata/base.tf
// completes a part of a resource; in a block that a test applies, resources are whole. A block that is marked as
// illustrative is skipped. A block that is marked with a file must be in that file.
func TestConfigurations(t *testing.T) {
	base, err := os.ReadFile(filepath.Join("testdata", "base.tf"))
	if err != nil {
		t.Fatal(err)
	}
	whole, _ := markdown.Sections(string(base))
	cli := newCLI(t)
	shown := slices.DeleteFunc(configurations(t), func(b markdown.Block) bool { return illustrative.MatchString(b.Mark) })
	if len(shown) == 0 {
		t.Error("found no configurations: the documents are not where this test looks")
	}
	cli.expectFormatted(t, shown)
	for _, b := range shown {
		if file := fromFile.FindStringSubmatch(b.Mark); file != nil {
			expectInFile(t, b, file[1])
			continue
		}
		t.Run(b.String(), func(t *testing.T) {
			parts, base := sectionsOf(t, b), whole
			if b.RunBy() != nil { // a test applies it as it stands
				base = withoutResources(whole, parts)
			}
			cli.expectValid(t, completed(base, parts))
		})
	}
}

// withoutResources returns the sections of base without the resources that a block shows.
func withoutResources(base, shown []markdown.Section) []markdown.Section {
	return slices.DeleteFunc(slices.Clone(base), func(b markdown.Section) bool {
		return strings.HasPrefix(b.Head, "resource ") &&
			slices.ContainsFunc(shown, func(s markdown.Section) bool { return s.Head == b.Head })
	})
}

// configurations returns the HCL blocks in documents, and the example files that docs/
// includes, except those that need a signer (TestExternalAuthorities has one) or a
// kubeconfig with its key (TestFunctions). A line with an ellipsis becomes a comment.
func configurations(t *testing.T) []markdown.Block {
	t.Helper()
	out := slices.DeleteFunc(allBlocks(t), func(b markdown.Block) bool { return b.Language != "hcl" })
	dir := os.DirFS(root(t))
	for _, pattern := range []string{
		"provider/*.tf", "resources/*/resource.tf", "data-sources/*/*.tf",
		"ephemeral-resources/*/*.tf", "functions/certificate/*.tf",
	} {
		files, err := fs.Glob(dir, "examples/"+pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("examples/%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			text, err := fs.ReadFile(dir, file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), "vault_") {
				out = append(out, markdown.Block{File: file, Line: 1, Text: string(text)})
			}
		}
	}
	for i := range out {
		out[i].Text = regexp.MustCompile(`(?m)^( *)…$`).ReplaceAllString(out[i].Text, "$1# …")
	}
	return out
}

// sectionsOf returns the sections of a block. The mark names the section of a fragment.
func sectionsOf(t *testing.T, b markdown.Block) []markdown.Section {
	t.Helper()
	inner := within.FindStringSubmatch(b.Mark)
	if inner == nil {
		out, loose := markdown.Sections(b.Text)
		loose = slices.DeleteFunc(loose, func(line string) bool { return strings.HasPrefix(line, "#") })
		if len(loose) > 0 {
			t.Fatalf("these lines are in no section, and no mark names one: %q", loose)
		}
		return out
	}
	head := fmt.Sprintf("%s %q", inner[1], inner[2])
	if inner[1] == "resource" {
		head += ` "prod"`
	}
	var body []string
	for line := range strings.Lines(b.Text) {
		body = append(body, "  "+strings.TrimRight(line, "\n"))
	}
	return []markdown.Section{{Head: head, Body: body}}
}

// expectInFile fails unless a file contains these lines, with any indentation.
func expectInFile(t *testing.T, b markdown.Block, file string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), file))
	if err != nil {
		t.Error(err)
	}
	flat := func(text string) string { return regexp.MustCompile(`(?m)^\s+`).ReplaceAllString(text, "") }
	if !strings.Contains(flat(string(text)), flat(b.Text)) {
		t.Errorf("%s is not in %s:\n%s", b, file, b.Text)
	}
}

// cli is Terraform or OpenTofu with the provider of this checkout.
type cli struct{ program, config, home string }

func newCLI(t *testing.T) cli {
	t.Helper()
	program, err := build.Terraform(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := cli{program: program, home: t.TempDir()}
	if err := build.Provider(t.Context(), ".", filepath.Join(c.home, "terraform-provider-kube")); err != nil {
		t.Fatal(err)
	}
	c.config = filepath.Join(c.home, "cli.tfrc")
	text := fmt.Sprintf("provider_installation {\n  dev_overrides {\n    \"kubequorum/kube\" = %q\n  }\n}\n", c.home)
	if err := os.WriteFile(c.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// expectFormatted fails if "fmt" would change a block.
func (c cli) expectFormatted(t *testing.T, blocks []markdown.Block) {
	t.Helper()
	command := c.command(t, "fmt", "-check", "-diff", "-no-color")
	command.Dir = t.TempDir()
	for _, b := range blocks {
		name := strings.ReplaceAll(b.String(), "/", "_") + ".tf"
		if err := os.WriteFile(filepath.Join(command.Dir, name), []byte(b.Text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("fmt would change a block: %v\n%s", err, out)
	}
}

// expectValid fails unless the CLI accepts the configuration. The source of the module
// is replaced by the checkout.
func (c cli) expectValid(t *testing.T, text string) {
	t.Helper()
	dir := t.TempDir()
	text = withFilesAndVariables(t, text, dir, c.home)
	text = released.ReplaceAllString(text, filepath.Join(root(t), "$1"))
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	steps := [][]string{{"validate", "-no-color"}}
	if strings.Contains(text, "module \"") {
		steps = [][]string{{"get", "-no-color"}, {"validate", "-no-color"}}
	}
	for _, args := range steps {
		command := c.command(t, args...)
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s\n%s", args[0], err, out, text)
		}
	}
}

// command is the CLI without the user's settings.
func (c cli) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	command := exec.CommandContext(t.Context(), c.program, args...)
	command.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "TF_") })
	command.Env = append(command.Env, "HOME="+c.home, "TF_CLI_CONFIG_FILE="+c.config, "CHECKPOINT_DISABLE=1")
	return command
}

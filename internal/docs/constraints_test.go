package docs

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestVersionConstraints checks that every configuration to copy has a version
// constraint for the provider, and every source of the module on GitHub a tag:
// without them, init installs the newest.
func TestVersionConstraints(t *testing.T) {
	requires := regexp.MustCompile(`(?s)kube = \{[^}]*source\s+= "kubequorum/kube"[^}]*\}`)
	constrained := regexp.MustCompile(`version\s+= "(~>|>=) \d`)
	remote := regexp.MustCompile(`github\.com/kubequorum/terraform-provider-kube(\.git)?//modules/\S+`)
	tagged := regexp.MustCompile(`//modules/[a-z-]+\?ref=v\d+\.\d+\.\d+\b`)
	providers, modules := 0, 0
	for file, text := range copied(t) {
		for _, block := range requires.FindAllString(text, -1) {
			providers++
			if !constrained.MatchString(block) {
				t.Errorf("%s requires the provider without a version:\n%s", file, block)
			}
		}
		for _, source := range remote.FindAllString(text, -1) {
			modules++
			if !tagged.MatchString(source) {
				t.Errorf("%s uses the module without a tag: %s", file, source)
			}
		}
	}
	if providers == 0 || modules == 0 {
		t.Errorf("found %d providers and %d modules: the configurations are not where this test looks", providers, modules)
	}
}

// copied returns the texts that readers copy: documents, examples and modules.
func copied(t *testing.T) map[string]string {
	t.Helper()
	out := documents(t)
	dir := os.DirFS(root(t))
	for _, folder := range []string{"examples", "modules"} {
		err := fs.WalkDir(dir, folder, func(name string, entry fs.DirEntry, err error) error {
			hidden := strings.Contains(name, "/.terraform")
			if err == nil && !entry.IsDir() && !hidden && slices.Contains([]string{".tf", ".hcl"}, path.Ext(name)) {
				text, err := fs.ReadFile(dir, name)
				out[name] = string(text)
				return err
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

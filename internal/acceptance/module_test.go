package acceptance

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// topology is one use of the module: its example, and the machines by the example's variables.
type topology struct {
	example  string
	machines map[string][]string
}

var topologies = []topology{
	{"one-machine", map[string][]string{"machines": {"cp1"}}},
	{"stacked", map[string][]string{"machines": {"cp1", "cp2", "cp3"}}},
	{"external-etcd", map[string][]string{"members": {"cp1", "cp2", "cp3"}, "replicas": {"cp4", "cp5"}}},
	{"own-balancers", map[string][]string{"machines": {"cp1", "cp2", "cp3"}, "balancers": {"cp4", "cp5"}}},
}

// TestModule runs the module's own tests with the CLI: the rules of its inputs, which need no
// machine, and the example of every topology on machines. Each example is applied, has an empty
// plan afterwards, and is destroyed again.
func TestModule(t *testing.T) {
	machines(t)
	all := []string{"cp1", "cp2", "cp3", "cp4", "cp5"}
	tree := checkout(t)
	t.Run("rules", func(t *testing.T) { passes(t, storyIn(t, all, tree, "modules/control-plane")) })
	bare := fingerprints(t, all...)
	for _, shape := range topologies {
		t.Run(shape.example, func(t *testing.T) {
			variables := map[string]any{}
			for variable, names := range shape.machines {
				variables[variable] = addresses(names)
			}
			w := storyIn(t, all, tree, "examples/"+shape.example)
			if err := w.WriteJSON("terraform.tfvars.json", variables); err != nil {
				t.Fatal(err)
			}
			passes(t, w)
			expectBare(t, bare, all...)
		})
		if t.Failed() {
			t.FailNow()
		}
	}
}

// checkout returns a copy of the directories whose configurations refer to each other.
func checkout(t *testing.T) string {
	t.Helper()
	root, err := build.Checkout()
	if err != nil {
		t.Fatal(err)
	}
	tree := t.TempDir()
	for _, folder := range []string{"examples", "modules"} {
		if err := os.CopyFS(filepath.Join(tree, folder), os.DirFS(filepath.Join(root, folder))); err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

// storyIn returns the configuration in a directory of a checkout.
func storyIn(t *testing.T, names []string, tree, folder string) *workspace.Workspace {
	t.Helper()
	dir := filepath.Join(tree, folder)
	return storyFrom(t, names, dir, func(w *workspace.Workspace) error {
		return w.MakeFrom(t.Context(), os.DirFS(dir), t.Output())
	})
}

// passes runs the tests of a configuration.
func passes(t *testing.T, w *workspace.Workspace) {
	t.Helper()
	out, err := w.Run(t.Context(), "test", "-no-color")
	if err != nil {
		t.Fatal(err)
	}
	t.Log(out)
}

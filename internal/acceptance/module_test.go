package acceptance

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// topology is one shape of the module: the example that has it, and its
// machines by the example's variables.
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

// TestModule runs the module's own tests by the CLI: the rules of its inputs,
// which reach no machine, and every topology's example on machines. Each is
// applied, has nothing left to do in the next plan, and is destroyed again.
func TestModule(t *testing.T) {
	all := []string{"cp1", "cp2", "cp3", "cp4", "cp5"}
	w := newModuleStory(t, all)
	bare := fingerprints(t, all...)
	t.Run("rules", func(t *testing.T) { passes(t, w, "rules") })
	for _, shape := range topologies {
		t.Run(shape.example, func(t *testing.T) {
			variables := map[string]any{}
			for variable, names := range shape.machines {
				addresses := map[string]string{}
				for _, name := range names {
					addresses[name] = address(name)
				}
				variables[variable] = addresses
			}
			if err := w.WriteJSON("topology.json", variables); err != nil {
				t.Fatal(err)
			}
			passes(t, w, shape.example, "-var-file=topology.json")
			expectBare(t, bare, all...)
		})
		if t.Failed() {
			t.FailNow()
		}
	}
}

// newModuleStory is the module in a copy of the folders that refer to each other.
func newModuleStory(t *testing.T, names []string) *workspace.Workspace {
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
	module := filepath.Join(tree, "modules", "control-plane")
	return storyFrom(t, names, module, func(w *workspace.Workspace) error {
		return w.MakeFrom(t.Context(), os.DirFS(module), t.Output())
	})
}

// passes runs one file of the module's tests.
func passes(t *testing.T, w *workspace.Workspace, name string, args ...string) {
	t.Helper()
	out, err := w.Run(t.Context(), append([]string{"test", "-no-color", "-filter=tests/" + name + ".tftest.hcl"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(out)
}

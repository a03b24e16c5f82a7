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

var stacked = topology{"stacked", map[string][]string{"machines": {"cp1", "cp2", "cp3"}}}

var topologies = []topology{
	{"one-machine", map[string][]string{"machines": {"cp1"}}},
	{"external-etcd", map[string][]string{"members": {"cp1", "cp2", "cp3"}, "replicas": {"cp4", "cp5"}}},
	{"own-balancers", map[string][]string{"machines": {"cp1", "cp2", "cp3"}, "balancers": {"cp4", "cp5"}}},
}

// TestModule runs the module's own tests with the CLI: the rules of its inputs, which need no
// machine, and the example of the stacked topology on machines.
func TestModule(t *testing.T) {
	machines(t)
	t.Run("rules", func(t *testing.T) { passes(t, storyIn(t, nil, checkout(t), "modules/control-plane")) })
	testTopologies(t, stacked)
}

// TestModuleTopologies runs the examples of the other topologies on machines.
func TestModuleTopologies(t *testing.T) {
	machines(t)
	testTopologies(t, topologies...)
}

// testTopologies applies the example of each topology, plans again, expects no change, and destroys it.
func testTopologies(t *testing.T, topologies ...topology) {
	t.Helper()
	tree := checkout(t)
	for _, shape := range topologies {
		t.Run(shape.example, func(t *testing.T) {
			var used []string
			variables := map[string]any{}
			for variable, names := range shape.machines {
				used = append(used, names...)
				variables[variable] = addresses(names)
			}
			w := storyIn(t, used, tree, "examples/"+shape.example)
			bare := fingerprints(t, used...)
			if err := w.WriteJSON("terraform.tfvars.json", variables); err != nil {
				t.Fatal(err)
			}
			passes(t, w)
			expectBare(t, bare, used...)
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

// passes runs the tests of a configuration. They create and destroy a control plane in a state of their own, so its
// machines must be free.
func passes(t *testing.T, w *workspace.Workspace) {
	t.Helper()
	out, err := w.Run(t.Context(), "test", "-no-color")
	if err != nil {
		t.Fatal(err)
	}
	t.Log(out)
}

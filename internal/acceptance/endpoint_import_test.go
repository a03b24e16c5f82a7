package acceptance

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// reimported removes an endpoint and a replica of it from the state, and imports both from the replica's machine. The
// state is the same afterwards, and nothing is to be changed.
func reimported(t *testing.T, w *workspace.Workspace, name string) {
	t.Helper()
	ids := map[string]string{
		inModule("kube_control_plane_endpoint.this"): address(name), inModule(replicaAddress(name)): address(name),
	}
	before := valuesBy(t, w)
	for to := range ids {
		if _, err := w.Run(t.Context(), "state", "rm", to); err != nil {
			t.Fatal(err)
		}
	}
	blocks := filepath.Join(w.Dir, "imports.tf")
	write(t, blocks, importBlocks(ids))
	expectContains(t, plan(t, w), "2 to import, 0 to add, 0 to change, 0 to destroy.")
	apply(t, w)
	write(t, blocks, "")
	expectEmptyPlan(t, w)
	for at, values := range valuesBy(t, w) {
		if values != before[at] && !strings.HasPrefix(at, "data.") {
			t.Errorf("%s was imported as\n%s\nbut was\n%s", at, values, before[at])
		}
	}
}

package acceptance

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// detectRaces fails the test at its end if a provider that was built with KUBE_TEST_RACE=1 has
// reported a data race. Otherwise the provider does not know the variable, and reports none.
func detectRaces(t *testing.T, w *workspace.Workspace) {
	t.Helper()
	w.Env = append(w.Env, "GORACE=log_path="+filepath.Join(w.Dir, "race"))
	t.Cleanup(func() {
		reports, err := filepath.Glob(filepath.Join(w.Dir, "race.*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, report := range reports {
			text, err := os.ReadFile(report)
			if err != nil {
				t.Fatal(err)
			}
			t.Errorf("%s", text)
		}
	})
}

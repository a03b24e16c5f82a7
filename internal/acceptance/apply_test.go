package acceptance

import (
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// apply runs terraform apply, and then expects that a plan with the same arguments is empty.
// Every test changes a control plane by it, or expects a failure.
func apply(t *testing.T, w *workspace.Workspace, args ...string) {
	t.Helper()
	applyOnly(t, w, args...)
	expectEmptyPlan(t, w, planArguments(args)...)
}

// refresh updates the state from the machines.
func refresh(t *testing.T, w *workspace.Workspace) {
	t.Helper()
	applyOnly(t, w, "-refresh-only")
}

func applyOnly(t *testing.T, w *workspace.Workspace, args ...string) {
	t.Helper()
	if _, err := w.Apply(t.Context(), t.Output(), args...); err != nil {
		t.Fatal(err)
	}
}

// planArguments returns the arguments of an apply without those that a plan after it must not
// repeat: what it replaces, how much it does at once, and a saved plan.
func planArguments(args []string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(arg string) bool {
		return strings.HasPrefix(arg, "-replace=") || strings.HasPrefix(arg, "-parallelism=") ||
			!strings.HasPrefix(arg, "-")
	})
}

func expectEmptyPlan(t *testing.T, w *workspace.Workspace, args ...string) {
	t.Helper()
	text, changes, err := w.Plan(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	if changes {
		t.Fatalf("the plan after the apply is not empty:\n%s", text)
	}
}

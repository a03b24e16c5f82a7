package acceptance

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// apply runs terraform apply, and then expects that a plan with the same arguments is empty.
func apply(t *testing.T, w *workspace.Workspace, args ...string) {
	t.Helper()
	mustApply(t, w, args...)
	expectEmptyPlan(t, w, planArguments(args)...)
	if slices.Contains(args, "-destroy") && everything(args) {
		unplanned.settle(w)
	}
}

// refresh updates the state from the machines.
func refresh(t *testing.T, w *workspace.Workspace) {
	t.Helper()
	mustApply(t, w, "-refresh-only")
}

// applyOnly applies, and the reason says why no plan follows at once. A test with a story
// or with makeWorkspace fails unless a later plan of everything is empty, or everything is destroyed.
func applyOnly(t *testing.T, w *workspace.Workspace, reason string, args ...string) {
	t.Helper()
	unplanned.owe(w, reason)
	mustApply(t, w, args...)
}

func mustApply(t *testing.T, w *workspace.Workspace, args ...string) {
	t.Helper()
	if _, err := w.Apply(t.Context(), t.Output(), args...); err != nil {
		t.Fatal(err)
	}
}

// unplanned are the workspaces in which applyOnly has run, and no plan of everything was empty since.
var unplanned debts

// debts are reasons by workspace. Tests of several workspaces may run at once.
type debts struct {
	mu  sync.Mutex
	all map[*workspace.Workspace]string
}

func (d *debts) owe(w *workspace.Workspace, reason string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all = map[*workspace.Workspace]string{}
	}
	d.all[w] = reason
}

// settle returns why a plan of a workspace was owed, "" if none was.
func (d *debts) settle(w *workspace.Workspace) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	reason := d.all[w]
	delete(d.all, w)
	return reason
}

// expectPlanned fails a test that passed, and that has not seen an empty plan after its last change.
func expectPlanned(t testing.TB, w *workspace.Workspace) {
	if reason := unplanned.settle(w); reason != "" && !t.Failed() {
		t.Errorf("no plan of everything was empty after the last apply (%s)", reason)
	}
}

// everything reports whether arguments of a command leave nothing out.
func everything(args []string) bool {
	return !slices.ContainsFunc(args, func(arg string) bool {
		return strings.HasPrefix(arg, "-target=") || strings.HasPrefix(arg, "-exclude=") || arg == "-refresh=false"
	})
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
	if everything(args) {
		unplanned.settle(w)
	}
}

// TestPlanOwed: an apply owes an empty plan of everything. A plan of a part does not do.
func TestPlanOwed(t *testing.T) {
	w, other := &workspace.Workspace{}, &workspace.Workspace{}
	end := func(w *workspace.Workspace) bool {
		r := &verdict{TB: t}
		expectPlanned(r, w)
		return r.failed
	}
	unplanned.owe(w, "half an upgrade")
	if end(other) || !end(w) {
		t.Error("an apply without a plan passes, or fails another workspace")
	}
	unplanned.owe(w, "half an upgrade")
	if reason := unplanned.settle(w); reason != "half an upgrade" || end(w) {
		t.Errorf("after an empty plan: %q", reason)
	}
	for _, args := range [][]string{{"-target=a.b"}, {"-var=x=1", "-exclude=a.b"}, {"-refresh=false"}} {
		if everything(args) {
			t.Errorf("%q plans everything", args)
		}
	}
	if !everything([]string{"-destroy", "-var=target=1"}) {
		t.Error("a destroy leaves something out")
	}
}

// verdict keeps whether a test was failed.
type verdict struct {
	testing.TB
	failed bool
}

func (v *verdict) Errorf(string, ...any) { v.failed = true }
func (v *verdict) Failed() bool          { return v.failed }

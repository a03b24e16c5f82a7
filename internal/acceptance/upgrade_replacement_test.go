package acceptance

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// generation is the versions that the machines of one generation run, as in the example.
type generation struct {
	Etcd       string            `json:"etcd"`
	Kubernetes string            `json:"kubernetes"`
	Machines   map[string]string `json:"machines"`
}

// slots maps each slot to the generation that fills it.
type slots map[string]string

// lateReplicas gives new replicas no time to become ready.
const lateReplicas = `
resource "kube_control_plane_replica" "this" {
  timeouts = { create = "7s" }
}
`

// TestUpgradeByReplacement applies the example: new machines with the next minor versions join
// before the old ones leave. First one slot is replaced by one changed line, then all others at
// once, together with the generation that they belong to. Clients on the virtual IP are not
// disturbed, and the old machines are bare.
func TestUpgradeByReplacement(t *testing.T) {
	old, young, balancers := []string{"cp1", "cp2", "cp3"}, []string{"cp4", "cp5", "cp6"}, []string{"lb1", "lb2"}
	all := slices.Concat(old, young, balancers)
	w := storyOf(t, all, "upgrade-by-replacement")
	bare := fingerprints(t, all...)
	generations := map[string]generation{"1": generationOf(minorBefore(t, 1), old)}
	arrange := func(s slots) {
		arrangeSlots(t, w, s, generations, balancers)
	}
	arrange(slots{"a": "1", "b": "1", "c": "1"})
	apply(t, w)

	t.Run("one slot", func(t *testing.T) {
		generations["2"] = generationOf(defaults(t), young)
		arrange(slots{"a": "2", "b": "1", "c": "1"})
		l := startLoad(t, outputOf(t, w, "kubeconfig"), "cp2", "cp3")
		before := processes(t, "cp2", "cp3", "lb1", "lb2")
		expectContains(t, plan(t, w), "Plan: 2 to add, 2 to change, 2 to destroy.")
		apply(t, w)
		undisturbed(t, l)
		expectRestarted(t, before, nil)
		expectBare(t, bare, "cp1")
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Run("the others", func(t *testing.T) {
		arrange(slots{"a": "2", "b": "2", "c": "2"})
		l := startLoad(t, outputOf(t, w, "kubeconfig"), "cp4")
		before := processes(t, "cp4", "lb1", "lb2")
		apply(t, w)
		undisturbed(t, l)
		expectRestarted(t, before, nil)
		expectBare(t, bare, old...)
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Run("all at once is refused", func(t *testing.T) {
		delete(generations, "1")
		generations["3"] = generationOf(defaults(t), old)
		arrange(slots{"a": "3", "b": "3", "c": "3"})
		expectContains(t, refused(t, w), "The plan replaces all ", "none of the serving ones would remain",
			"use two applies") // members or replicas: whichever Terraform plans first
	})
	t.Run("two at once, and one is late", func(t *testing.T) {
		arrange(slots{"a": "3", "b": "3", "c": "2"})
		override(t, w, lateReplicas)
		l := startLoad(t, outputOf(t, w, "kubeconfig"), young[2])
		late := refused(t, w)
		expectContains(t, late, "Control-plane replica not created")
		if !strings.Contains(late, "install Kubernetes") { // the time ran out while the programs were sent
			expectContains(t, late, "it was not registered: the endpoint sends it no requests")
		}
		override(t, w, "")
		apply(t, w)
		undisturbed(t, l)
		expectEmptyPlan(t, w)
		arrange(slots{"a": "3", "b": "3", "c": "3"})
		apply(t, w)
		expectBare(t, bare, young...)
		expectHealthy(t, w, []string{"a", "b", "c"})
	})
	apply(t, w, "-destroy")
	expectBare(t, bare, all...)
}

// generationOf returns one machine for each slot, and the versions that they run.
func generationOf(v versions, names []string) generation {
	g := generation{Etcd: v.etcd, Kubernetes: v.kubernetes, Machines: map[string]string{}}
	for i, slot := range []string{"a", "b", "c"} {
		g.Machines[slot] = address(names[i])
	}
	return g
}

func arrangeSlots(
	t *testing.T, w *workspace.Workspace, s slots, generations map[string]generation, balancers []string,
) {
	t.Helper()
	if err := w.WriteJSON("terraform.tfvars.json", map[string]any{
		"slots": maps.Clone(s), "generations": generations, "balancers": addresses(balancers), "drain_timeout": "3s",
	}); err != nil {
		t.Fatal(err)
	}
}

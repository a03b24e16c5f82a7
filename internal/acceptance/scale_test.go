package acceptance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// scaling is one edit of the map of machines.
type scaling struct {
	names []string
	args  []string
}

// TestScale scales 1→3→1. The first machine is removed too: no machine is special. Processes on a machine that stays
// are never restarted, and a machine that is removed is bare.
func TestScale(t *testing.T) {
	testScale(t, scaling{names: []string{"cp1", "cp2", "cp3"}},
		scaling{names: []string{"cp3"}, args: []string{"-parallelism=1"}})
}

// TestScaleToFive scales 1→3→5→3→1 likewise, in parallel and one resource at a time.
func TestScaleToFive(t *testing.T) {
	testScale(t, scaling{names: []string{"cp1", "cp2", "cp3"}},
		scaling{names: []string{"cp1", "cp2", "cp3", "cp4", "cp5"}, args: []string{"-parallelism=1"}},
		scaling{names: []string{"cp2", "cp3", "cp5"}},
		scaling{names: []string{"cp3"}, args: []string{"-parallelism=1"}})
}

func testScale(t *testing.T, scalings ...scaling) {
	t.Helper()
	all := []string{"cp1"}
	for _, s := range scalings {
		all = append(all, s.names...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	w := newStory(t, append(all, "cp4")...) // with the one that warnsOfEvenSizes plans
	bare := fingerprints(t, all...)
	there := []string{"cp1"}
	choose(t, w, there...)
	apply(t, w)
	for _, s := range scalings {
		t.Run(fmt.Sprintf("from %d to %d", len(there), len(s.names)), func(t *testing.T) {
			if !scale(t, w, bare, there, s) {
				t.FailNow()
			}
		})
		if t.Failed() {
			t.FailNow()
		}
		there = s.names
		if len(there) == 3 {
			warnsOfEvenSizes(t, w, there)
		}
	}
	apply(t, w, "-destroy")
	expectBare(t, bare, all...)
}

func scale(t *testing.T, w *workspace.Workspace, bare map[string][]string, there []string, s scaling) bool {
	t.Helper()
	var remaining, leave []string
	for _, name := range there {
		if slices.Contains(s.names, name) {
			remaining = append(remaining, name)
		} else {
			leave = append(leave, name)
		}
	}
	before := processes(t, remaining...)
	choose(t, w, s.names...)
	apply(t, w, s.args...)
	expectHealthy(t, w, s.names)
	expectRestarted(t, before, nil)
	expectBare(t, bare, leave...)
	return !t.Failed()
}

// warnsOfEvenSizes plans one machine more and one less without applying it.
func warnsOfEvenSizes(t *testing.T, w *workspace.Workspace, there []string) {
	t.Helper()
	more := append(slices.Clone(there), "cp4")
	for _, names := range [][]string{more, there[:2]} {
		var entries []string
		for _, name := range names {
			entries = append(entries, fmt.Sprintf("%s = %q", name, address(name)))
		}
		output := plan(t, w, "-var=machines={"+strings.Join(entries, ", ")+"}")
		expectContains(t, output, fmt.Sprintf("Even number of etcd members: %d", len(names)))
	}
}

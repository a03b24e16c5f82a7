package acceptance

import (
	"fmt"
	"strings"
	"testing"
)

// maintenance requests everything on every member, and a drain of one replica.
const maintenance = `
resource "kube_etcd_member" "this" {
  maintenance = {
    snapshot         = %[1]q
    defragment       = %[1]q
    min_free_percent = 30
    move_leader      = each.key == "cp3" ? %[1]q : null
  }
}

resource "kube_control_plane_replica" "this" {
  maintenance = each.key == "cp1" ? { drain = %[1]q, hold = "10s" } : null
}
`

// TestMaintenance requests by an argument, with any CLI, what actions do, while clients send requests.
// A value is done once, and what was requested when a resource was created is not done.
func TestMaintenance(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w := newStory(t, names...)
	bare := fingerprints(t, names...)
	override(t, w, fmt.Sprintf(maintenance, "created"))
	apply(t, w)
	expectRequested(t, names, "requested", 0)

	loosen(t)
	sizes := databaseSizes(t, names)
	l := startLoad(t, outputOf(t, w, "kubeconfig"), names...)
	override(t, w, fmt.Sprintf(maintenance, "2026-11"))
	text := plan(t, w)
	expectContains(t, text, "0 to add, 4 to change, 0 to destroy.", `"created" -> "2026-11"`)
	if strings.Contains(text, "config_digest") {
		t.Errorf("the plan shows more than what is requested:\n%s", text)
	}
	expectDrained(t, "cp1", func() string {
		apply(t, w)
		return ""
	})
	undisturbed(t, l)
	expectRequested(t, names, "requested", 3)
	for name, size := range databaseSizes(t, names) {
		if size > sizes[name]/2 {
			t.Errorf("%s: %d bytes before, %d now", name, sizes[name], size)
		}
	}
	if leader := leaderOf(t, w); leader != "cp3" {
		t.Errorf("%s leads", leader)
	}
	override(t, w, "")
	apply(t, w)
	expectRequested(t, names, "requested", 3)
	apply(t, w, "-destroy")
	expectBare(t, bare, names...)
}

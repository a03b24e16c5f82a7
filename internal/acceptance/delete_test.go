package acceptance

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// literals removes the references that determine the order of the graph: the replicas name the
// endpoint and the members by literal values.
const literals = `
resource "kube_control_plane_replica" "this" {
  endpoint = {
    address       = var.endpoint_address
    port          = 6443
    hosts         = var.machines
    drain_timeout = var.drain_timeout
    verify_ca     = true
  }
  etcd = ["https://${each.value}:2379"]
}
`

// shortTimeouts limits every delete.
const shortTimeouts = `
resource "kube_control_plane_endpoint" "this" {
  timeouts = { delete = "60s" }
}
resource "kube_etcd_member" "this" {
  timeouts = { delete = "60s" }
}
resource "kube_control_plane_replica" "this" {
  timeouts = { delete = "60s" }
}
`

// TestDelete destroys resources in the ways that users do: a part of them, one replica, without
// an order, and with a dead machine.
func TestDelete(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w := newStory(t, names...)
	bare := fingerprints(t, names...)
	for _, s := range []struct {
		name string
		run  func(t *testing.T, w *workspace.Workspace)
	}{
		{"half applied", func(t *testing.T, w *workspace.Workspace) {
			apply(t, w, "-target=kube_etcd_member.this")
			destroyAll(t, w, bare, names)
		}},
		{"one replica by target", leaveBeforeStopping},
		{"in no order", func(t *testing.T, w *workspace.Workspace) {
			destroyWithoutOrder(t, w, names)
			destroyAll(t, w, bare, names)
		}},
		{"with a dead machine", func(t *testing.T, w *workspace.Workspace) {
			override(t, w, shortTimeouts)
			apply(t, w)
			destroyWithDead(t, w)
			destroyAll(t, w, bare, []string{"cp1", "cp3"})
		}},
	} {
		t.Run(s.name, func(t *testing.T) { s.run(t, w) })
		if t.Failed() {
			t.FailNow()
		}
	}
	if err := shared.lab.Machine("cp2").Rebuild(t.Context()); err != nil { // it was abandoned
		t.Fatal(err)
	}
}

// destroyAll destroys everything and expects one snapshot on one machine: that of the last
// member.
func destroyAll(t *testing.T, w *workspace.Workspace, bare map[string][]string, names []string) {
	t.Helper()
	before := snapshots(t, names)
	apply(t, w, "-destroy")
	expectBare(t, bare, names...)
	if saved := snapshots(t, names) - before; saved != 1 {
		t.Errorf("%d snapshots were saved, want the last member's", saved)
	}
}

func snapshots(t *testing.T, names []string) int {
	t.Helper()
	n := 0
	for _, name := range names {
		n += strings.Count(onMachine(t, shared.lab.Machine(name),
			`find /var/lib/etcd-archive -name snapshot.db -size +0 2>/dev/null || true`), "\n")
	}
	return n
}

// leaveBeforeStopping checks that a replica leaves all balancers before it stops. All machines
// share one clock, so the modification time of a balancer's list can be compared with the time
// of the stop.
func leaveBeforeStopping(t *testing.T, w *workspace.Workspace) {
	apply(t, w)
	began := seconds(t, "cp3", `date +%s.%N`)
	apply(t, w, "-destroy", "-target="+replicaAddress("cp3"))
	stopped := seconds(t, "cp3",
		fmt.Sprintf(`journalctl -q -o short-unix -t systemd --since=@%.0f | grep -m1 'Stopping kube-apiserver' | `+
			`cut -d' ' -f1`, began))
	for _, name := range []string{"cp1", "cp2", "cp3"} {
		left := seconds(t, name, `stat -c %.Y /etc/haproxy/kube/20-backends.cfg`)
		if left < began || left > stopped {
			t.Errorf("replica cp3 left the balancer on %s at %.3f, and began to stop at %.3f", name, left, stopped)
		}
	}
}

// seconds reads a time that a script on a machine prints.
func seconds(t *testing.T, name, script string) float64 {
	t.Helper()
	text := strings.TrimSpace(onMachine(t, shared.lab.Machine(name), script))
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatalf("on %s: %v", name, err)
	}
	return value
}

// destroyWithoutOrder adopts the replicas again without references to their dependencies, so
// that the following destroy has no order.
func destroyWithoutOrder(t *testing.T, w *workspace.Workspace, names []string) {
	t.Helper()
	if _, err := w.Run(t.Context(), "state", "rm", "kube_control_plane_replica.this"); err != nil {
		t.Fatal(err)
	}
	before := processes(t, "cp1", "cp2")
	override(t, w, literals)
	apply(t, w)
	expectRestarted(t, before, nil)
	expectHealthy(t, w, names)
}

// destroyWithDead checks that the survivors do what the rules allow, that the error names the
// remedy, and that nothing is left after applying it.
func destroyWithDead(t *testing.T, w *workspace.Workspace) {
	t.Helper()
	if err := shared.lab.Machine("cp2").PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	expectContains(t, refused(t, w, "-destroy"), "cp2 (10.97.0.12)", abandonCP2)
	if took := time.Since(began); took > 3*time.Minute {
		t.Errorf("the destroy went on for %s, with timeouts of 60 s", took.Round(time.Second))
	}
	override(t, w, shortTimeouts+abandon)
}

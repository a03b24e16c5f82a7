package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// TestRefreshOnlyIsQuiet checks that the state of a resource contains nothing that changes by
// itself. "plan -refresh-only" finds no change on an idle control plane, nor after etcd's
// leader and the virtual IP have moved.
func TestRefreshOnlyIsQuiet(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w := newStory(t, names...)
	bare := fingerprints(t, names...)
	apply(t, w)
	awaitRotation(t, names...)
	expectNoDrift(t, w)
	moveLeader(t, w)
	expectNoDrift(t, w)
	moveVirtualIP(t, w)
	awaitRotation(t, names...)
	expectNoDrift(t, w)
	expectEmptyPlan(t, w)
	apply(t, w, "-destroy")
	expectBare(t, bare, names...)
}

// expectNoDrift expects a refresh without differences. Its exit status is no evidence:
// Terraform 1.11 also compares decoded values in memory and returns 2
// (hashicorp/terraform#36403). OpenTofu returns 0 whatever changed (opentofu#3107).
func expectNoDrift(t *testing.T, w *workspace.Workspace) {
	t.Helper()
	text, _, err := w.Plan(t.Context(), "-refresh-only")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, "No changes.") || strings.Contains(text, "changed outside of") {
		t.Fatalf("a refresh finds changes:\n%s", text)
	}
}

// moveLeader makes another member of etcd the leader.
func moveLeader(t *testing.T, w *workspace.Workspace) {
	t.Helper()
	before := observed(t, w).Etcd
	if before.Leader == "" {
		t.Fatal("no member leads")
	}
	for name, member := range before.Members {
		if name != before.Leader {
			onMachine(t, shared.lab.Machine(before.Leader), fmt.Sprintf("%setcdctl move-leader %s", ctl, member.ID))
			break
		}
	}
	if after := observed(t, w).Etcd.Leader; after == "" || after == before.Leader {
		t.Fatalf("%q led, and now %q does", before.Leader, after)
	}
}

// moveVirtualIP restarts keepalived on the machine that has the virtual IP. Another machine
// takes it over and keeps it.
func moveVirtualIP(t *testing.T, w *workspace.Workspace) {
	t.Helper()
	before := observed(t, w).VirtualIP.Holder
	if before == "" {
		t.Fatal("no machine holds the virtual IP")
	}
	onMachine(t, shared.lab.Machine(before),
		"systemctl stop kube-endpoint-keepalived; sleep 3; systemctl start kube-endpoint-keepalived")
	time.Sleep(3 * time.Second) // until it is a backup
	if after := observed(t, w).VirtualIP.Holder; after == "" || after == before {
		t.Fatalf("%q held the virtual IP, and now %q does", before, after)
	}
}

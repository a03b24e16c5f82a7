package acceptance

import (
	"fmt"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// abandon lets the other members act for cp2, which is gone.
const abandon = `
provider "kube" {
  abandon_unreachable_hosts = ["10.97.0.12"]
}
`

// abandonCP2 is the part of an error about cp2.
const abandonCP2 = `add "10.97.0.12" to abandon_unreachable_hosts of the provider`

func memberAddress(name string) string { return fmt.Sprintf("kube_etcd_member.this[%q]", name) }

func replicaAddress(name string) string {
	return fmt.Sprintf("kube_control_plane_replica.this[%q]", name)
}

// TestReplace replaces members and replicas on their machines, including the leader and the
// first one. It moves two of them to other machines: one from a live machine and one from a
// dead one.
func TestReplace(t *testing.T) {
	all := []string{"cp1", "cp2", "cp3", "cp4"}
	names := all[:3]
	w := newStory(t, all...)
	bare := fingerprints(t, all...)
	choose(t, w, names...)
	apply(t, w)

	leader := leaderOf(t, w)
	replaceOn(t, w, "what leads", []string{"-replace=" + memberAddress(leader), "-replace=" + replicaAddress(leader)},
		[]string{
			leader + " etcd", leader + " kube-apiserver", leader + " kube-controller-manager", leader + " kube-scheduler",
		})
	replaceOn(t, w, "the first member, and a replica elsewhere", []string{
		"-replace=" + memberAddress("cp1"),
		"-replace=" + replicaAddress("cp2"),
	},
		[]string{
			// These are drained and paused.
			"cp1 etcd", "cp1 kube-apiserver", "cp1 kube-controller-manager", "cp1 kube-scheduler",
			"cp2 kube-apiserver", "cp2 kube-controller-manager", "cp2 kube-scheduler",
		})
	user := newUser(t, w)
	disturbed(t, "as in the guide", []string{
		"cp2 etcd", "cp2 kube-apiserver", "cp2 kube-controller-manager", "cp2 kube-scheduler",
	}, nil, func(t *testing.T) {
		user.typeCommands(t, inExample.Replace(documentedScript(t, "scaling-and-repair", 0)))
		expectEmptyPlan(t, w)
	})
	t.Run("from a machine that is alive", func(t *testing.T) {
		before := processes(t, "cp2", "cp3")
		place(t, w, map[string]string{"cp1": address("cp4"), "cp2": address("cp2"), "cp3": address("cp3")})
		apply(t, w)
		expectRestarted(t, before, nil)
		expectBare(t, bare, "cp1")
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Run("from a machine that is dead", func(t *testing.T) { moveFromDead(t, w) })
	expectHealthy(t, w, names)
	apply(t, w, "-destroy")
	expectBare(t, bare, "cp1", "cp3", "cp4")
	if err := shared.lab.Machine("cp2").Rebuild(t.Context()); err != nil { // it was abandoned
		t.Fatal(err)
	}
}

// replaceOn applies and expects that only the units of must are restarted.
func replaceOn(t *testing.T, w *workspace.Workspace, name string, args, must []string, may ...string) {
	t.Helper()
	disturbed(t, name, must, may, func(t *testing.T) { apply(t, w, args...) })
}

// disturbed runs a step and expects that it restarts the units of must, and no others but those
// of may.
func disturbed(t *testing.T, name string, must, may []string, step func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		before := processes(t, "cp1", "cp2", "cp3")
		step(t)
		expectRestarted(t, before, must, may...)
	})
	if t.Failed() {
		t.FailNow()
	}
}

// moveFromDead moves cp2 to the machine that cp1 has left.
func moveFromDead(t *testing.T, w *workspace.Workspace) {
	if err := shared.lab.Machine("cp2").PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := processes(t, "cp3", "cp4")
	place(t, w, map[string]string{"cp1": address("cp4"), "cp2": address("cp1"), "cp3": address("cp3")})
	expectContains(t, refused(t, w), "cp2 (10.97.0.12)", abandonCP2)
	override(t, w, abandon)
	apply(t, w)
	expectRestarted(t, before, nil)
}

// leaderOf returns the name of the leader.
func leaderOf(t *testing.T, w *workspace.Workspace) string {
	t.Helper()
	leader := observed(t, w).Etcd.Leader
	if leader == "" {
		t.Fatal("no member leads")
	}
	return leader
}

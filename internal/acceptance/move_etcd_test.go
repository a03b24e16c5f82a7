package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// movable allows any roles in the example.
const (
	movable = `
module "control_plane" {
  machines   = var.roles
  kubernetes = { version = %q, members = var.members }
}
`
	movableVariables = `
variable "roles" { type = map(object({ address = string, roles = set(string) })) }
variable "members" { type = string }
`
)

// arrangement is the placement of etcd in one step of the move.
type arrangement struct {
	name   string
	etcdOn []string
	use    string // which members a replica uses: "own" or "all"
	leaves bool   // members leave that replicas use together with others
}

// TestMoveEtcd moves etcd to dedicated machines and back, in the steps of the guide on
// topologies. If an API server uses several members and one of them stops, its in-flight
// requests to that member fail: it does not retry them with another member. No acknowledged
// write is lost, and no other request fails.
func TestMoveEtcd(t *testing.T) {
	all := []string{"cp1", "cp2", "cp3", "cp4", "cp5", "cp6"}
	front, back := all[:3], all[3:]
	rearrange(t, all, []arrangement{
		{etcdOn: front, use: "own"},
		{name: "both", etcdOn: all, use: "all"},
		{name: "external", etcdOn: back, use: "own", leaves: true},
		{name: "both again", etcdOn: all, use: "all"},
		{name: "stacked again", etcdOn: front, use: "own", leaves: true},
	})
}

// rearrange creates a control plane on the first three machines, with etcd as in the first step, and
// takes the other steps while clients work.
func rearrange(t *testing.T, all []string, steps []arrangement) {
	t.Helper()
	front := all[:3]
	w := storyIn(t, all, checkout(t), "examples/stacked")
	bare := fingerprints(t, all...)
	if err := os.WriteFile(filepath.Join(w.Dir, "roles.tf"), []byte(movableVariables), 0o600); err != nil {
		t.Fatal(err)
	}
	override(t, w, fmt.Sprintf(movable, release(t, "kubernetes")))
	arrange(t, w, front, steps[0])
	apply(t, w)
	for n, next := range steps[1:] {
		t.Run(next.name, func(t *testing.T) {
			criteria := load.Unnoticed().Excusing(droppedWrites...)
			if next.leaves {
				criteria = criteria.Excusing(stoppedMembers)
			}
			l := startClients(t, load.Config{
				Kubeconfig: outputOf(t, w, "kubeconfig"), Criteria: criteria,
				Etcd: directWriter(t, steps[n].etcdOn[0], func() []string { return all }),
			})
			arrange(t, w, front, next)
			apply(t, w)
			undisturbed(t, l)
			expectEmptyPlan(t, w)
		})
		if t.Failed() {
			t.FailNow()
		}
	}
	apply(t, w, "-destroy")
	expectBare(t, bare, all...)
}

// arrange changes the machines that run etcd. The replicas stay where they are.
func arrange(t *testing.T, w *workspace.Workspace, replicas []string, a arrangement) {
	t.Helper()
	roles := map[string][]string{}
	for _, name := range a.etcdOn {
		roles[name] = append(roles[name], "etcd")
	}
	for _, name := range replicas {
		roles[name] = append(roles[name], "replica", "balancer")
	}
	machines := map[string]any{}
	for name, has := range roles {
		machines[name] = map[string]any{"address": address(name), "roles": has}
	}
	if err := w.WriteJSON("terraform.tfvars.json", map[string]any{
		"machines": addresses(replicas), "roles": machines,
		"members": a.use,
	}); err != nil {
		t.Fatal(err)
	}
}

// stoppedMembers excuses the requests that were in flight with an etcd member that stopped (the
// connection ended, or the member had already left raft): at most two requests of a client for
// each of three members.
var stoppedMembers = load.Excuse{
	Operation: load.APIRequest, Kinds: []string{"HTTP 500"}, Texts: []string{"Unavailable", "raft: stopped"}, Most: 3 * 2,
	Reason: "an API server that uses several members does not repeat a request that is in flight with a member that stops",
}

package acceptance

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// withActions makes the test run with the Terraform that this checkout builds, because OpenTofu and
// older versions have neither actions nor queries.
func withActions(t *testing.T) {
	t.Helper()
	machines(t)
	terraform, err := build.Set(t.Context(), "terraform")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBE_TEST_TERRAFORM", terraform)
}

const actionsFile = `
action "kube_etcd_snapshot" "now" {
  config {
    pki   = kube_pki_bundle.this.bundle
    peers = var.machines
    label = "before-migration"
  }
}

action "kube_etcd_defragment" "all" {
  config {
    pki              = kube_pki_bundle.this.bundle
    peers            = var.machines
    min_free_percent = 30
  }
}

action "kube_etcd_move_leader" "cp2" {
  config {
    pki   = kube_pki_bundle.this.bundle
    peers = var.machines
    to    = "cp2"
  }
}

action "kube_etcd_move_leader" "nobody" {
  config {
    pki   = kube_pki_bundle.this.bundle
    peers = var.machines
    to    = "cp9"
  }
}

action "kube_control_plane_drain" "cp3" {
  config {
    pki  = kube_pki_bundle.this.bundle
    host = { address = var.machines["cp3"] }
    hold = "20s"
  }
}

resource "terraform_data" "migration" {
  lifecycle {
    action_trigger {
      events  = [before_create]
      actions = [action.kube_etcd_snapshot.now]
    }
  }
}
`

// TestActions invokes each action while clients send requests, of which none fails. Then it lists the
// control plane and takes it over.
func TestActions(t *testing.T) {
	withActions(t)
	names := []string{"cp1", "cp2", "cp3"}
	w := newStory(t, names...)
	bare := fingerprints(t, names...)
	apply(t, w)
	write(t, filepath.Join(w.Dir, "actions.tf"), actionsFile)
	loosen(t)
	sizes := databaseSizes(t, names)
	before := processes(t, names...)
	l := startLoad(t, outputOf(t, w, "kubeconfig"), names...)

	t.Run("a trigger saves a snapshot before the resource exists", func(t *testing.T) {
		applyOnly(t, w, "an action that a plan does not show")
		expectRequested(t, names, "before-migration", 1)
	})
	t.Run("snapshot", func(t *testing.T) {
		expectContains(t, invoke(t, w, "kube_etcd_snapshot.now"), "saved and verified snapshot",
			"-before-migration.db on cp1")
		expectRequested(t, names, "before-migration", 2)
	})
	t.Run("leadership", func(t *testing.T) {
		expectContains(t, invoke(t, w, "kube_etcd_move_leader.cp2"), "cp2 leads 3 members")
		if leader := leaderOf(t, w); leader != "cp2" {
			t.Errorf("%s leads", leader)
		}
	})
	t.Run("defragmentation, the leader last", func(t *testing.T) {
		output := invoke(t, w, "kube_etcd_defragment.all")
		order := defragmentedIn(output)
		if len(order) != 3 || order[2] != "cp2" {
			t.Errorf("defragmented in the order %v:\n%s", order, output)
		}
		for name, size := range databaseSizes(t, names) {
			if size > sizes[name]/2 {
				t.Errorf("%s: %d bytes before, %d now", name, sizes[name], size)
			}
		}
	})
	t.Run("again, nothing is free", func(t *testing.T) {
		if order := defragmentedIn(invoke(t, w, "kube_etcd_defragment.all")); len(order) > 0 {
			t.Errorf("defragmented %v", order)
		}
	})
	t.Run("drain", func(t *testing.T) {
		expectDrained(t, "cp3", func() string { return invoke(t, w, "kube_control_plane_drain.cp3") })
	})
	undisturbed(t, l)
	t.Run("a member that does not exist", func(t *testing.T) {
		_, err := w.Run(t.Context(), "apply", "-auto-approve", "-no-color", "-invoke=action.kube_etcd_move_leader.nobody")
		if err == nil || !strings.Contains(err.Error(), "etcd leadership not moved") {
			t.Errorf("invoked: %v", err)
		}
	})
	// A defragmented member's API server, which uses no other member, was stopped meanwhile.
	var stopped []string
	for _, name := range names {
		for _, unit := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
			stopped = append(stopped, name+" "+unit)
		}
	}
	expectRestarted(t, before, nil, stopped...)
	expectEmptyPlan(t, w)
	t.Run("query", func(t *testing.T) { expectQueried(t, w, names) })
	apply(t, w, "-destroy")
	expectBare(t, bare, names...)
}

// invoke runs one action and returns its output.
func invoke(t *testing.T, w *workspace.Workspace, action string) string {
	t.Helper()
	output, err := w.Run(t.Context(), "apply", "-auto-approve", "-input=false", "-no-color", "-invoke=action."+action)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(output)
	return output
}

var defragmentedForm = regexp.MustCompile(`etcd (\w+): defragmented: `)

// defragmentedIn returns the members that an action has defragmented, in that order.
func defragmentedIn(output string) []string {
	var order []string
	for _, match := range defragmentedForm.FindAllStringSubmatch(output, -1) {
		order = append(order, match[1])
	}
	return order
}

// loosen leaves databases that consist of free pages: history is written and dropped.
func loosen(t *testing.T) {
	t.Helper()
	onMachine(t, shared.lab.Machine("cp1"), ctl+`head -c 700000 /dev/urandom | base64 -w 0 >/tmp/value
for i in $(seq 60); do etcdctl put /loose </tmp/value >/dev/null; done
rm /tmp/value
revision=$(etcdctl get /loose --write-out=json | sed 's/.*"revision":\([0-9]*\).*/\1/')
etcdctl compaction --physical "$revision" >/dev/null
etcdctl del /loose >/dev/null
for i in 1 2 3 4 5; do etcdctl put /after $i >/dev/null; sleep 0.3; done
etcdctl del /after >/dev/null`)
}

// databaseSizes returns the sizes of the files of the members' databases.
func databaseSizes(t *testing.T, names []string) map[string]int {
	t.Helper()
	sizes := map[string]int{}
	for _, name := range names {
		var size int
		text := onMachine(t, shared.lab.Machine(name), "stat -c %s /var/lib/etcd/member/snap/db")
		if _, err := fmt.Sscan(text, &size); err != nil {
			t.Fatal(err)
		}
		sizes[name] = size
	}
	return sizes
}

// expectRequested expects a number of requested snapshots with a label on all machines together.
func expectRequested(t *testing.T, names []string, label string, want int) {
	t.Helper()
	got := 0
	for _, name := range names {
		out := onMachine(t, shared.lab.Machine(name), "ls /var/lib/etcd-archive/requested 2>/dev/null || :")
		got += strings.Count(out, "-"+label+".db")
	}
	if got != want {
		t.Errorf("there are %d snapshots with the label %s, want %d", got, label, want)
	}
}

// expectDrained runs f, and expects that the replica was out of rotation on a balancer meanwhile, and
// is in rotation afterwards.
func expectDrained(t *testing.T, name string, f func() string) {
	t.Helper()
	var output string
	var running sync.WaitGroup
	done := make(chan struct{})
	running.Go(func() {
		defer close(done)
		output = f()
	})
	drained := false
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
			drained = drained || !inRotation(t, name)
		}
	}
	running.Wait()
	if !drained || !inRotation(t, name) {
		t.Errorf("was out of rotation: %t, is in rotation: %t", drained, inRotation(t, name))
	}
	if output != "" {
		expectContains(t, output, "out of rotation until", name+" ("+address(name)+"): back in rotation")
	}
}

// inRotation reports whether the balancer on cp1 sends new connections to a replica.
func inRotation(t *testing.T, name string) bool {
	t.Helper()
	state := onMachine(t, shared.lab.Machine("cp1"),
		"/opt/kube/endpoint/ask /run/kube-endpoint/haproxy.sock 'show servers state kube-apiserver'")
	for line := range strings.Lines(state) {
		if fields := strings.Fields(line); len(fields) > 6 && fields[3] == name {
			return fields[5] == "2" && fields[6] == "0" // running, and no administrative state
		}
	}
	return false
}

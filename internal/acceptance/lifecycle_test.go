package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// TestLifecycle runs a full lifecycle with the provider's binary and the real CLI: three bare machines, a control plane
// on them, an empty plan, the API through the virtual IP, no restart by a refresh or by an apply that needs none (which
// also repairs a stopped snapshot timer), and bare machines again.
func TestLifecycle(t *testing.T) { lifecycle(t, 1) }

// TestLifecycleTwice runs it twice on the same machines.
func TestLifecycleTwice(t *testing.T) { lifecycle(t, 2) }

func lifecycle(t *testing.T, rounds int) {
	t.Helper()
	l := machines(t)
	names := []string{"cp1", "cp2", "cp3"}
	before := map[string][]string{}
	for _, name := range names {
		before[name] = fingerprint(t, l.Machine(name))
	}
	w := newWorkspace(t, len(names))
	for round := range rounds {
		t.Run(fmt.Sprintf("round %d", round+1), func(t *testing.T) {
			override(t, w, scheduled("*-01-31 00:00"))
			apply(t, w)
			expectHealthy(t, w, names)
			useAPI(t, w)

			started := startsOfAll(t, names)
			refresh(t, w)
			// A setting that is read only when a replica leaves, and a snapshot timer that was
			// stopped manually on one machine.
			onMachine(t, l.Machine("cp2"), "systemctl disable --quiet --now etcd-snapshot.timer")
			expectContains(t, plan(t, w), "cp2: etcd-snapshot.timer is inactive, wanted active")
			override(t, w, scheduled("*-01-30 00:00"))
			apply(t, w, "-var=drain_timeout=3s")
			for _, name := range names {
				expectContains(t, onMachine(t, l.Machine(name),
					"systemctl is-active etcd-snapshot.timer; systemctl is-enabled etcd-snapshot.timer; systemctl show -p "+
						"NextElapseUSecRealtime etcd-snapshot.timer"),
					"active\nenabled\n", "-01-30 00:00:00")
			}
			if now := startsOfAll(t, names); now != started {
				t.Errorf("processes were restarted:\nbefore:\n%s\nafter:\n%s", started, now)
			}

			apply(t, w, "-destroy")
			for _, name := range names {
				sameMachine(t, l.Machine(name), before[name])
			}
		})
	}
}

// scheduled configures scheduled snapshots, with uploads to an address that never answers.
func scheduled(schedule string) string {
	return fmt.Sprintf(`resource "kube_etcd_member" "this" {
  snapshots = { schedule = %q, kept = 2, upload = "cp \"$SNAPSHOT\" /srv/" }
}
`, schedule)
}

// newWorkspace returns the example with the first n machines of the lab.
func newWorkspace(t *testing.T, n int) *workspace.Workspace {
	t.Helper()
	ctx := t.Context()
	w := makeWorkspace(t)
	if err := w.WriteJSON("terraform.tfvars.json",
		map[string]any{"machines": w.Machines(n), "drain_timeout": "5s"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // a failed test leaves bare machines for the next one
		if _, err := w.Apply(context.WithoutCancel(ctx), t.Output(), "-destroy"); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	return w
}

// expectHealthy expects that everything serves, in the default versions.
func expectHealthy(t *testing.T, w *workspace.Workspace, names []string) {
	t.Helper()
	v := defaults(t)
	expectServing(t, w, names, v.etcd, v.kubernetes)
}

// expectServing reads from the state what the provider has observed: every member and replica
// of names serves, in these versions.
func expectServing(t *testing.T, w *workspace.Workspace, names []string, etcd, kubernetes string) {
	t.Helper()
	refresh(t, w)
	resources, err := w.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]map[string]any{}
	for _, r := range resources {
		var v map[string]any
		if err := json.Unmarshal(r.Values, &v); err != nil {
			t.Fatal(err)
		}
		values[r.Address] = v
	}
	var members []string
	for _, name := range names {
		resource := values[fmt.Sprintf("kube_etcd_member.this[%q]", name)]
		expect(t, name, resource, map[string]any{"learner": false})
		expect(t, name, values[fmt.Sprintf("kube_control_plane_replica.this[%q]", name)], map[string]any{"registered": true})
		members = append(members, fmt.Sprint(resource["name"])) // a key of for_each need not be the name
	}
	seen := observed(t, w)
	problems := notServing(seen, members, etcd, kubernetes)
	// On a busy computer, a healthy etcd may miss the two seconds that a health check gives it.
	for limit := time.Now().Add(time.Minute); len(problems) > 0 && time.Now().Before(limit); {
		t.Logf("observed again: %s", strings.Join(problems, "; "))
		seen = observed(t, w)
		problems = notServing(seen, members, etcd, kubernetes)
	}
	for _, problem := range problems {
		t.Error(problem)
	}
	endpoint := values["kube_control_plane_endpoint.this"]
	expect(t, "endpoint", endpoint, map[string]any{"url": "https://" + net.JoinHostPort(w.VIP(), "6443")})
	if backends := seen.Balancers[seen.VirtualIP.Holder].Backends; len(backends) != len(names) {
		t.Errorf("the holder %q has backends %v, want one for each of %v", seen.VirtualIP.Holder, backends, names)
	}
}

// notServing lists what does not serve, or in another version, of the members of these names and the replicas on their
// machines.
func notServing(seen health, members []string, etcd, kubernetes string) (problems []string) {
	leaders := 0
	for _, name := range members {
		member := seen.Etcd.Members[name]
		if !member.Healthy || member.Unit != "active" || member.Version != etcd {
			problems = append(problems,
				fmt.Sprintf("etcd member %s is %+v, want a healthy one of version %s", name, member, etcd))
		}
		if member.Leader {
			leaders++
		}
		components := seen.Replicas[name].Components
		if len(components) != 3 {
			problems = append(problems, fmt.Sprintf("%s has %d components, want 3", name, len(components)))
		}
		for component, c := range components {
			if !c.Healthy || c.Health != "ok" || c.Version != kubernetes {
				problems = append(problems,
					fmt.Sprintf("%s on %s is %+v, want a healthy one of version %s", component, name, c, kubernetes))
			}
		}
	}
	if leaders != 1 {
		problems = append(problems, fmt.Sprintf("%d members lead, want 1", leaders))
	}
	return problems
}

func expect(t *testing.T, what string, got map[string]any, want map[string]any) {
	t.Helper()
	for attribute, value := range want {
		if got[attribute] != value {
			t.Errorf("%s: %s is %v, want %v", what, attribute, got[attribute], value)
		}
	}
}

func startsOfAll(t *testing.T, names []string) string {
	t.Helper()
	var all strings.Builder
	for _, name := range names {
		all.WriteString(name + "\n" + starts(t, shared.lab.Machine(name)))
	}
	return all.String()
}

// useAPI uses the control plane through the virtual IP as an administrator does: kubectl with
// the kubeconfig from the outputs.
func useAPI(t *testing.T, w *workspace.Workspace) {
	t.Helper()
	useAPIWith(t, w, outputOf(t, w, "kubeconfig"))
}

func useAPIWith(t *testing.T, w *workspace.Workspace, text string) {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl := kubectlPath(t)
	for _, args := range []string{
		"create namespace acceptance",
		"-n acceptance create configmap greeting --from-literal=hello=world",
		"-n acceptance get configmap greeting",
		"auth can-i create clusterrolebindings",
		"delete namespace acceptance --wait=false",
	} {
		cmd := w.InLab(t.Context(), kubectl, append([]string{"--kubeconfig", kubeconfig}, strings.Fields(args)...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("kubectl %s: %v\n%s", args, err, out)
		}
	}
}

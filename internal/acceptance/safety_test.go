package acceptance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// rekeyed changes the for_each keys of some members and replicas, but not their names or
// machines.
func rekeyed(names ...string) string {
	set := `["` + strings.Join(names, `", "`) + `"]`
	return fmt.Sprintf(`
resource "kube_etcd_member" "this" {
  for_each = { for name, address in var.machines : (contains(%[1]s, name) ? "node-${name}" : name) => address }
  name     = trimprefix(each.key, "node-")
}
resource "kube_control_plane_replica" "this" {
  for_each = { for name, address in var.machines : (contains(%[1]s, name) ? "node-${name}" : name) => address }
  name     = trimprefix(each.key, "node-")
}
`, set)
}

// writeMoves adds moved blocks to the workspace. An override file must not contain any.
func writeMoves(t *testing.T, w *workspace.Workspace, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.Dir, "moved.tf"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// moves returns moved blocks for members and replicas with new keys.
func moves(from, to string, names []string) string {
	text := ""
	for _, kind := range []string{"kube_etcd_member", "kube_control_plane_replica"} {
		for _, name := range names {
			text += fmt.Sprintf("moved {\n  from = %[1]s.this[%[2]q]\n  to   = %[1]s.this[%[3]q]\n}\n", kind, from+name, to+name)
		}
	}
	return text
}

// TestNoApplyEndsTheCluster makes edits that are valid and careless. Each one is rejected in
// the plan, before anything is changed, or leaves the cluster as it is.
func TestNoApplyEndsTheCluster(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w := newStory(t, names...)
	bare := fingerprints(t, names...)
	if err := w.WriteJSON("protection.auto.tfvars.json", map[string]any{"deletion_protection": true}); err != nil {
		t.Fatal(err)
	}
	apply(t, w)
	before := processes(t, names...)
	cluster := etcdCluster(t, "cp1")
	var replaceAll []string
	for _, name := range names {
		replaceAll = append(replaceAll, "-replace="+memberAddress(name), "-replace="+replicaAddress(name))
	}
	refusal := func(name string, args []string, fragments ...string) {
		t.Run(name, func(t *testing.T) { expectContains(t, refused(t, w, args...), fragments...) })
	}
	refusal("destroy", []string{"-destroy"}, "deletion_protection", "apply, then destroy")
	refusal("destroy the members alone", []string{"-destroy", "-target=kube_etcd_member.this"}, "The plan destroys all",
		"deletion_protection")
	refusal("replace all", replaceAll, "The plan replaces all etcd members", "two applies")
	refusal("replace all, one at a time", append([]string{"-parallelism=1"}, replaceAll...),
		"The plan replaces all etcd members")
	t.Run("other keys for all", func(t *testing.T) {
		override(t, w, rekeyed(names...))
		expectContains(t, refused(t, w), "The plan replaces all etcd members", "add a moved block for each")
		writeMoves(t, w, moves("", "node-", names))
		apply(t, w)
		override(t, w, "")
		writeMoves(t, w, moves("node-", "", names))
		apply(t, w)
		writeMoves(t, w, "")
	})
	expectSame(t, before, cluster)
	if t.Failed() {
		t.FailNow()
	}
	rename(t, w, names)
	oneOtherKey(t, w, cluster)
	readdressEndpoint(t, w, names)
	if err := w.WriteJSON("protection.auto.tfvars.json", map[string]any{"deletion_protection": false}); err != nil {
		t.Fatal(err)
	}
	apply(t, w)
	refusal("another bundle", []string{"-replace=kube_pki_bundle.this"}, "PKI bundle would be a new one")
	loseBundle(t, w)
	apply(t, w, "-destroy")
	expectBare(t, bare, names...)
}

// loseBundle removes the bundle from the state. The plan refuses to create another one for the cluster, and says how to
// import it from the copy that each resource has.
func loseBundle(t *testing.T, w *workspace.Workspace) {
	t.Helper()
	t.Run("a lost bundle", func(t *testing.T) {
		run := func(args ...string) string {
			text, err := w.Run(t.Context(), args...)
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		run("state", "rm", "kube_pki_bundle.this")
		expectContains(t, refused(t, w), "PKI bundle would be a new one", "terraform state pull", "file:FILE")
		// Terraform plans to create it also before it plans to destroy the rest.
		expectContains(t, refused(t, w, "-destroy"), "terraform destroy -refresh=false")
		expectContains(t, plan(t, w, "-destroy", "-refresh=false"), "will be destroyed")
		var state struct {
			Resources []struct {
				Type      string
				Instances []struct {
					Attributes struct{ PKI string }
				}
			}
		}
		if err := json.Unmarshal([]byte(run("state", "pull")), &state); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "bundle")
		for _, r := range state.Resources {
			if r.Type == "kube_etcd_member" {
				if err := os.WriteFile(file, []byte(r.Instances[0].Attributes.PKI), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		run("import", "-input=false", "-no-color", "kube_pki_bundle.this", "file:"+file)
		expectEmptyPlan(t, w)
	})
}

// rename gives every machine another name: other members and other replicas.
func rename(t *testing.T, w *workspace.Workspace, names []string) {
	t.Helper()
	t.Run("other names for all", func(t *testing.T) {
		override(t, w, "")
		renamed := map[string]string{}
		for _, name := range names {
			renamed["node"+name[2:]] = address(name)
		}
		before := processes(t, names...)
		place(t, w, renamed)
		expectContains(t, refused(t, w), "The plan replaces all etcd members")
		place(t, w, addresses(names))
		if now := processes(t, names...); fmt.Sprint(now) != fmt.Sprint(before) {
			t.Errorf("processes were %v, are %v", before, now)
		}
	})
}

// oneOtherKey renames one key without a moved block, at any parallelism. The member stays, or
// leaves and joins again, and the cluster is the same.
func oneOtherKey(t *testing.T, w *workspace.Workspace, cluster string) {
	t.Helper()
	for _, c := range []struct{ name, text, parallelism string }{
		{"one other key", rekeyed("cp2"), "-parallelism=10"},
		{"one other key, one at a time", rekeyed("cp2", "cp3"), "-parallelism=1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			override(t, w, c.text)
			apply(t, w, c.parallelism)
			expectEmptyPlan(t, w)
			if now := etcdCluster(t, "cp2"); now != cluster {
				t.Errorf("the cluster was %s, is %s", cluster, now)
			}
		})
	}
}

// readdressEndpoint gives the endpoint another address in the configuration, without a moved block. Its Delete and the
// Create of the same endpoint are one apply, in which replicas stay registered.
func readdressEndpoint(t *testing.T, w *workspace.Workspace, names []string) {
	t.Helper()
	t.Run("the endpoint at another address", func(t *testing.T) {
		before := processes(t, names...)
		files, err := filepath.Glob(filepath.Join(w.Dir, "*.tf"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%d files, %v", len(files), err)
		}
		renames := strings.NewReplacer(`"kube_control_plane_endpoint" "this"`, `"kube_control_plane_endpoint" "main"`,
			"kube_control_plane_endpoint.this", "kube_control_plane_endpoint.main")
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(file, []byte(renames.Replace(string(text))), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		apply(t, w)
		expectRestarted(t, before, nil)
		useAPI(t, w)
	})
}

// etcdCluster returns the cluster that a member belongs to, from its record.
func etcdCluster(t *testing.T, name string) string {
	t.Helper()
	text := onMachine(t, shared.lab.Machine(name),
		`sed -n 's/.*"etcd_cluster_id": "\([0-9a-f]*\)".*/\1/p' /etc/etcd/member.json`)
	if strings.TrimSpace(text) == "" {
		t.Errorf("%s does not record its etcd cluster", name)
	}
	return strings.TrimSpace(text)
}

// expectSame expects every process and the cluster to be as before.
func expectSame(t *testing.T, before map[string]string, cluster string) {
	t.Helper()
	expectRestarted(t, before, nil)
	if now := etcdCluster(t, "cp1"); now != cluster {
		t.Errorf("the cluster was %s, is %s", cluster, now)
	}
}

package acceptance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

const queryFile = `
list "kube_etcd_member" "all" {
  provider = kube
  limit    = %[2]d
  config {
    host = { address = %[1]q }
  }
}

list "kube_control_plane_replica" "all" {
  provider = kube
  limit    = %[2]d
  config {
    host = { address = %[1]q }
  }
}

list "kube_control_plane_endpoint" "all" {
  provider = kube
  limit    = %[2]d
  config {
    host = { address = %[1]q }
  }
}
`

// expectQueried lists a control plane from one machine, and takes the generated configuration over
// without changing anything on a machine. It is part of TestActions, which has the control plane.
func expectQueried(t *testing.T, w *workspace.Workspace, names []string) {
	backup := filepath.Join(t.TempDir(), "bundle")
	write(t, backup, textOf(valuesOf(t, w, "kube_pki_bundle.this"), "bundle"))
	machinesBefore := observeMachines(t, names...)
	defer forgetExample(t, w)()
	query := func(from string, limit int) {
		write(t, filepath.Join(w.Dir, "all.tfquery.hcl"), fmt.Sprintf(queryFile, address(from), limit))
	}

	t.Run("a limit is one of connections too", func(t *testing.T) {
		members, _, _ := strings.Cut(fmt.Sprintf(queryFile, address("cp1"), 1), "list \"kube_control_plane_replica\"")
		write(t, filepath.Join(w.Dir, "all.tfquery.hcl"), members)
		logins := countLogins(t, "cp2", "cp3")
		counts := queried(t, w, "-generate-config-out="+filepath.Join(w.Dir, "limited.tf"))
		if counts["kube_etcd_member"] != 1 {
			t.Errorf("listed %v", counts)
		}
		if err := os.Remove(filepath.Join(w.Dir, "limited.tf")); err != nil {
			t.Fatal(err)
		}
		if more := logins(); more["cp2"] != 0 || more["cp3"] != 0 {
			t.Errorf("connections: %v", more)
		}
	})
	t.Run("without resources, only balancers are asked besides", func(t *testing.T) {
		query("cp2", 100)
		logins := countLogins(t, "cp3")
		if counts := queried(t, w); counts["kube_etcd_member"] != 3 || counts["kube_control_plane_replica"] != 3 ||
			counts["kube_control_plane_endpoint"] != 1 {
			t.Errorf("listed %v", counts)
		}
		// The replicas come from the balancers, each of which is asked once.
		if more := logins(); more["cp3"] > 1 {
			t.Errorf("connections: %v", more)
		}
	})
	t.Run("the generated configuration imports everything and changes nothing", func(t *testing.T) {
		path := filepath.Join(w.Dir, "generated.tf")
		query("cp2", 100)
		queried(t, w, "-generate-config-out="+path)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("generated:\n%s", text)
		withBundle := regexp.MustCompile(`(?m)^(\s*pki\s*=) null # sensitive$`).ReplaceAllString(string(text),
			"$1 kube_pki_bundle.this.bundle")
		write(t, path, withBundle+fmt.Sprintf(`
resource "kube_pki_bundle" "this" {
  cluster_name        = var.cluster_name
  deletion_protection = var.deletion_protection
}
import {
  to = kube_pki_bundle.this
  id = "file:%s"
}
`, backup))
		if err := os.Remove(filepath.Join(w.Dir, "all.tfquery.hcl")); err != nil {
			t.Fatal(err)
		}
		expectContains(t, plan(t, w), "8 to import, 0 to add, 0 to change, 0 to destroy.")
		apply(t, w)
		machinesBefore.expect(t)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	})
}

// forgetExample removes the state, and everything but the provider's settings from the
// configuration. The returned function restores both.
func forgetExample(t *testing.T, w *workspace.Workspace) (restore func()) {
	t.Helper()
	files := map[string]string{}
	for _, name := range []string{"main.tf", "outputs.tf", "actions.tf", "terraform.tfstate"} {
		text, err := os.ReadFile(filepath.Join(w.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text)
	}
	settings, _, _ := strings.Cut(files["main.tf"], `resource "kube_pki_bundle"`)
	write(t, filepath.Join(w.Dir, "main.tf"), settings)
	write(t, filepath.Join(w.Dir, "outputs.tf"), "")
	write(t, filepath.Join(w.Dir, "actions.tf"), "")
	if err := os.Remove(filepath.Join(w.Dir, "terraform.tfstate")); err != nil {
		t.Fatal(err)
	}
	return func() {
		for name, text := range files {
			write(t, filepath.Join(w.Dir, name), text)
		}
	}
}

// queried runs the query and returns how many resources of each type it has listed.
func queried(t *testing.T, w *workspace.Workspace, args ...string) map[string]int {
	t.Helper()
	out, err := w.Run(t.Context(), append([]string{"query", "-json"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for line := range strings.Lines(out) {
		var event struct {
			Type   string `json:"type"`
			Result struct {
				Type string `json:"resource_type"`
			} `json:"list_resource_found"`
		}
		if json.Unmarshal([]byte(line), &event) == nil && event.Type == "list_resource_found" {
			counts[event.Result.Type]++
		}
	}
	return counts
}

// countLogins returns a function that returns how often sshd has let somebody in on each machine
// since.
func countLogins(t *testing.T, names ...string) func() map[string]int {
	t.Helper()
	count := func(name string) int {
		out := onMachine(t, shared.lab.Machine(name), "journalctl -u ssh -o cat | grep -c '^Accepted publickey' || :")
		n, err := strconv.Atoi(strings.TrimSpace(out))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := map[string]int{}
	for _, name := range names {
		before[name] = count(name)
	}
	return func() map[string]int {
		more := map[string]int{}
		for _, name := range names {
			more[name] = count(name) - before[name] - 1 // which is this count's own
		}
		return more
	}
}

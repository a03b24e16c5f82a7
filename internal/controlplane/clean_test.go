package controlplane

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/componenttest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

func TestWhose(t *testing.T) {
	s := componenttest.Stacked(t)
	named := func(path, cluster, name string) func(*observed) {
		return func(f *observed) {
			text := `{"cluster_id": "` + cluster + `", "cluster_name": "prod", "name": "` + name + `"}`
			f.facts.Files[path] = host.FileState{Content: text}
			*f = interpret(f.facts)
		}
	}
	id := s.Bundle.ClusterID
	for _, c := range []struct {
		name  string
		alter func(*observed)
		mine  bool
		other string
		err   string
	}{
		{"itself", named(recordPath, id, "cp1"), true, "", ""},
		{"itself, cut off", named(creatingPath, id, "cp1"), true, "", ""},
		{"nothing", func(*observed) {}, true, "", ""},
		{"another replica of the cluster", named(recordPath, id, "cp2"), false, `replica "cp2" of cluster "prod"`, ""},
		{"another cluster's, of the same name", named(recordPath, "x", "cp1"), false, `replica "cp1" of cluster "prod"`, ""},
		{"the beginning of another replica", named(creatingPath, id, "cp2"), false, `the beginning of replica "cp2" of cluster "prod"`, ""},
		{"its record beside another's beginning", func(f *observed) { named(creatingPath, id, "cp2")(f); named(recordPath, id, "cp1")(f) }, true, "", ""},
		{"a unit of nobody's", func(f *observed) { f.facts.Files[unit.Path(release.APIServer)] = host.FileState{} }, false, "", errNoEvidence.Error()},
		{"a record that cannot be read", func(f *observed) { _, f.recordErr = readRecord("{") }, false, "", "replica.json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := interpret(cptest.BareMachine())
			c.alter(&f)
			mine, other, err := f.owner(s)
			if mine != c.mine || other != c.other || !strings.Contains(cptest.Text(err), c.err) || (c.err == "") != (err == nil) {
				t.Errorf("%t, %q, %v", mine, other, err)
			}
		})
	}
}

// TestGuard runs the beginning of the cleaning script below a directory: it continues only if
// the machine has what was observed.
func TestGuard(t *testing.T) {
	s := componenttest.Stacked(t)
	content := "{}\n"
	is := digest([]byte(content))
	for _, c := range []struct {
		name   string
		files  []string
		judged map[string]string
		goes   bool
	}{
		{"as judged", []string{recordPath, unit.Path(release.APIServer)}, map[string]string{"record": is, "creating": ""}, true},
		{"another record by now", []string{recordPath}, map[string]string{"record": digest(nil), "creating": ""}, false},
		{"a record by now", []string{recordPath}, map[string]string{"record": "", "creating": ""}, false},
		{"the record is gone", nil, map[string]string{"record": is, "creating": ""}, false},
		{"another create has begun", []string{recordPath, creatingPath}, map[string]string{"record": is, "creating": ""}, false},
		{"its own create was cut off", []string{creatingPath, unit.Path(release.APIServer)}, map[string]string{"record": "", "creating": is}, true},
		{"nothing", nil, map[string]string{"record": "", "creating": ""}, true},
		{"nothing but a unit by now", []string{unit.Path(release.Scheduler)}, map[string]string{"record": "", "creating": ""}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, file := range c.files {
				at := filepath.Join(dir, file)
				if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(at, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			values := host.Assignments(c.judged)
			script := strings.ReplaceAll(string(guardScript(s)), "/etc/", dir+"/etc/") + "echo cleaned\n"
			out, err := exec.CommandContext(t.Context(), "sh", "-euc", string(values)+script).CombinedOutput()
			if want := map[bool]string{true: "cleaned", false: answerChanged}[c.goes]; err != nil || strings.TrimSpace(string(out)) != want {
				t.Errorf("%q, %v, want %q", out, err, want)
			}
		})
	}
}

// TestCreatingFile: the first file of a Create is parsed as the identity of its replica.
func TestCreatingFile(t *testing.T) {
	s := componenttest.Stacked(t)
	f := interpret(cptest.BareMachine())
	f.facts.Files[creatingPath] = host.FileState{Content: string(creatingFile(s).Content)}
	f = interpret(f.facts)
	held, begun := f.identity()
	if !begun || !held.of(s) || f.gone(s) {
		t.Errorf("%+v, begun %t, gone %t", held, begun, f.gone(s))
	}
	s.Name = "cp2"
	if failed := foreignChecks(s, f); len(failed) != 1 || !strings.Contains(failed[0], `the beginning of replica "cp1"`) {
		t.Errorf("another replica on that machine: %q", failed)
	}
}

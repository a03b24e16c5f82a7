package machine

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/componenttest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/node"
)

func TestOwner(t *testing.T) {
	s := componenttest.Stacked(t)
	named := func(path, cluster, name string) func(*Observed) {
		return func(f *Observed) {
			text := `{"cluster_id": "` + cluster + `", "cluster_name": "prod", "name": "` + name + `"}`
			f.Facts.Files[path] = host.FileState{Content: text}
			*f = Interpret(f.Facts)
		}
	}
	id := s.Bundle.ClusterID
	for _, c := range []struct {
		name  string
		alter func(*Observed)
		mine  bool
		other string
		err   string
	}{
		{"itself", named(RecordPath, id, "cp1"), true, "", ""},
		{"itself, cut off", named(CreatingPath, id, "cp1"), true, "", ""},
		{"nothing", func(*Observed) {}, true, "", ""},
		{"another replica of the cluster", named(RecordPath, id, "cp2"), false, `replica "cp2" of cluster "prod"`, ""},
		{"another cluster's, of the same name", named(RecordPath, "x", "cp1"), false, `replica "cp1" of cluster "prod"`, ""},
		{
			"the beginning of another replica", named(CreatingPath, id, "cp2"), false,
			`the beginning of replica "cp2" of cluster "prod"`, "",
		},
		{
			"its record beside another's beginning",
			func(f *Observed) { named(CreatingPath, id, "cp2")(f); named(RecordPath, id, "cp1")(f) }, true, "", "",
		},
		{
			"a unit of nobody's", func(f *Observed) { f.Facts.Files[unit.Path(release.APIServer)] = host.FileState{} }, false,
			"", ErrNoEvidence.Error(),
		},
		{"a record that cannot be read", func(f *Observed) { _, f.RecordErr = ReadRecord("{") }, false, "", "replica.json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := Interpret(cptest.BareMachine())
			c.alter(&f)
			mine, other, err := f.Owner(s)
			if mine != c.mine || other != c.other || !strings.Contains(cptest.Text(err), c.err) ||
				(c.err == "") != (err == nil) {
				t.Errorf("%t, %q, %v", mine, other, err)
			}
		})
	}
}

// TestRemoveOnlyIfUnchanged runs the beginning of the cleaning script below a directory: it continues only if
// the machine has what was observed.
func TestRemoveOnlyIfUnchanged(t *testing.T) {
	content := "{}\n"
	is := Digest([]byte(content))
	for _, c := range []struct {
		name   string
		files  []string
		judged map[string]string
		goes   bool
	}{
		{
			"as judged",
			[]string{RecordPath, unit.Path(release.APIServer)},
			map[string]string{"record": is, "creating": ""},
			true,
		},
		{"another record by now", []string{RecordPath}, map[string]string{"record": Digest(nil), "creating": ""}, false},
		{"a record by now", []string{RecordPath}, map[string]string{"record": "", "creating": ""}, false},
		{"the record is gone", nil, map[string]string{"record": is, "creating": ""}, false},
		{
			"another create has begun",
			[]string{RecordPath, CreatingPath},
			map[string]string{"record": is, "creating": ""},
			false,
		},
		{
			"its own create was cut off",
			[]string{CreatingPath, unit.Path(release.APIServer)},
			map[string]string{"record": "", "creating": is},
			true,
		},
		{"nothing", nil, map[string]string{"record": "", "creating": ""}, true},
		{
			"nothing but a unit by now",
			[]string{unit.Path(release.Scheduler)},
			map[string]string{"record": "", "creating": ""},
			false,
		},
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
			script := strings.ReplaceAll(string(guardScript()), "/etc/", dir+"/etc/") + "echo cleaned\n"
			out, err := exec.CommandContext(t.Context(), "sh", "-euc", string(values)+script).CombinedOutput()
			if want := map[bool]string{true: "cleaned", false: answerChanged}[c.goes]; err != nil ||
				strings.TrimSpace(string(out)) != want {
				t.Errorf("%q, %v, want %q", out, err, want)
			}
		})
	}
}

// TestCreatingFile: the first file of a Create is parsed as the identity of its replica.
func TestCreatingFile(t *testing.T) {
	s := componenttest.Stacked(t)
	f := Interpret(cptest.BareMachine())
	f.Facts.Files[CreatingPath] = host.FileState{Content: string(CreatingFile(s).Content)}
	f = Interpret(f.Facts)
	held, begun := f.Identity()
	if !begun || !held.IsFor(s) || f.IsEmpty(s) {
		t.Errorf("%+v, begun %t, gone %t", held, begun, f.IsEmpty(s))
	}
	s.Name = "cp2"
	if failed := OwnershipProblems(s, f); len(failed) != 1 ||
		!strings.Contains(failed[0], `the beginning of replica "cp1"`) {
		t.Errorf("another replica on that machine: %q", failed)
	}
}

// TestRecordGoesLast: while a kubelet has to be removed after a replica, its record stays, and the machine counts as
// one that has the replica.
func TestRecordGoesLast(t *testing.T) {
	s := componenttest.Stacked(t)
	f := Interpret(cptest.BareMachine())
	if q := Query(s); !slices.Contains(q.Files, node.RecordPath) || f.HasNode() || !f.IsGone(s) {
		t.Errorf("asked for %q; a bare machine has a kubelet that was installed: %t", q.Files, f.HasNode())
	}
	f.Facts.Files[node.RecordPath] = host.FileState{}
	if !f.HasNode() {
		t.Error("the record of the installation does not count")
	}
	if mine, _, err := f.Owner(s); f.IsGone(s) || !f.IsEmpty(s) || !mine || err != nil {
		t.Errorf("a Create that was given up: gone %t, empty %t, its own %t, %v", f.IsGone(s), f.IsEmpty(s), mine, err)
	}
	f.Facts.Files["/etc/etcd/member.json"] = host.FileState{}
	if !f.IsGone(s) || !slices.Contains(Query(s).Files, "/etc/etcd/member.json") {
		t.Error("the kubelet of an etcd member is one of the replica")
	}
	delete(f.Facts.Files, "/etc/etcd/member.json")
	forget := string(ForgetScript())
	for _, c := range []struct {
		keeps bool
		ends  bool
	}{{false, true}, {true, false}} {
		script := string(f.removeScript(s, c.keeps))
		if strings.HasSuffix(script, forget) != c.ends || strings.Contains(script, "rm -f -- "+RecordPath+" ") != c.ends {
			t.Errorf("the record is kept: %t\n%s", c.keeps, script)
		}
	}
	f.Facts.Files[RecordPath] = host.FileState{Content: string(NewRecord(s, nil).File().Content)}
	f = Interpret(f.Facts)
	if mine, _, err := f.Owner(s); f.IsEmpty(s) || !mine || err != nil {
		t.Errorf("a removal that was cut off: empty %t, its own %t, %v", f.IsEmpty(s), mine, err)
	}
}

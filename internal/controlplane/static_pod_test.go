package controlplane

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/pod"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
)

// podSpec returns a stacked replica of static pods.
func podSpec(t *testing.T) Spec {
	s := testSpec(t)
	s.Runtime = component.StaticPod
	return s
}

// podReport is what a machine reports whose pods were started from the files of facts.
func podReport(s Spec, facts host.Facts) string {
	report := "pod\truntime\tctr\npod\tkubelet\tactive\n"
	for _, c := range component.Of(s.Replica) {
		note := strings.Repeat("cd", 32) + ":" + staticpod.Self + " start-1\n"
		for _, file := range append([]string{pod.Path(c.Name)}, c.Inputs...) {
			note += facts.Files[file].SHA256 + ":" + file + " "
		}
		report += "pod\tanswers\t" + c.Name + "\npod\tcontainer\t" + c.Name + "\t" + strings.Repeat("ab", 32) +
			"\tRUNNING\t7\t" + base64.StdEncoding.EncodeToString([]byte(note)) + "\nreplica\t" + c.Name +
			"\tdefined\nreplica\t" + c.Name + "\tplaced\nreplica\t" + c.Name + "\tversion\t" + s.Version + "\n"
	}
	return report
}

// lines replaces a text in the report of the machine.
func lines(f *machine.Observed, old, replacement string) {
	f.Facts.Output = strings.ReplaceAll(f.Facts.Output, old, replacement)
	*f = machine.Interpret(f.Facts)
}

// TestStaticPodDecisions: static pods drift, and are restarted, by the rules for units.
func TestStaticPodDecisions(t *testing.T) {
	const scheduler = release.Scheduler
	for _, c := range []struct {
		name    string
		alter   func(s *Spec, f *machine.Observed)
		drift   string
		restart []string
	}{
		{"nothing", func(*Spec, *machine.Observed) {}, "", nil},
		{"a flag", func(s *Spec, _ *machine.Observed) {
			s.ExtraArgs = map[string]map[string]string{scheduler: {"v": "2"}}
		}, `flag --v is missing, wanted "2"`, []string{scheduler}},
		{"an edited manifest", func(_ *Spec, f *machine.Observed) {
			lines(f, "replica\t"+scheduler+"\tplaced\n", "replica\t"+scheduler+"\tplaced\nreplica\t"+scheduler+"\tedited\n")
		}, "its definition changed after it was read", []string{scheduler}},
		{"a definition that everybody can read", func(_ *Spec, f *machine.Observed) {
			state := f.Facts.Files[pod.Path(scheduler)]
			state.Mode = component.PublicMode
			f.Facts.Files[pod.Path(scheduler)] = state
		}, "has mode 0644, wanted 0600", nil},
		{"no container for long", func(_ *Spec, f *machine.Observed) {
			container := "pod\tcontainer\t" + scheduler + "\t"
			lines(f, container, "pod\tother\t"+scheduler+"\t")
			f.Facts.Output += "replica\t" + scheduler + "\tage\t120\n"
			*f = machine.Interpret(f.Facts)
		}, "static pod kube-scheduler has no container", []string{scheduler}},
		{"a lost manifest", func(_ *Spec, f *machine.Observed) {
			lines(f, "replica\t"+scheduler+"\tplaced\n", "")
			lines(f, "RUNNING\t7", "EXITED\t0")
		}, "static pod kube-scheduler is inactive", release.Components()},
		{"a copy of a manifest", func(_ *Spec, f *machine.Observed) {
			f.Facts.Output += "pod\tduplicate\t" + scheduler + "\t" + staticpod.Directory + "/x.yaml\n"
		}, "changed by files in " + staticpod.Directory, []string{scheduler}},
		{"a renewed kubeconfig that was not read", func(_ *Spec, f *machine.Observed) {
			edit(f, component.SchedulerConf, f.Facts.Files[component.SchedulerConf].Content+"\n")
			f.Record.Issued[component.SchedulerConf] = f.Facts.Files[component.SchedulerConf].SHA256
		}, "it was started with another " + component.SchedulerConf, []string{scheduler}},
		{"an edited input", func(_ *Spec, f *machine.Observed) {
			edit(f, component.SAPub, "x")
		}, component.SAPub + " has different content", []string{release.APIServer}},
		{"an older version", func(_ *Spec, f *machine.Observed) {
			lines(f, "\tversion\t1.36.3", "\tversion\t1.36.2")
		}, "runs version 1.36.2, wanted 1.36.3", nil},
		{"a stopped kubelet", func(_ *Spec, f *machine.Observed) {
			lines(f, "kubelet\tactive", "kubelet\tinactive")
			lines(f, "RUNNING\t7", "EXITED\t0")
		}, "static pod kube-scheduler fails (the kubelet does not run)", release.Components()},
	} {
		s := podSpec(t)
		f := converged(t, s)
		c.alter(&s, &f)
		problems := drift(s.Replica, f, cptest.Now)
		if text := strings.Join(problems, "\n"); (c.drift == "") != (text == "") || !strings.Contains(text, c.drift) {
			t.Errorf("%s: drift is %q, want %q", c.name, problems, c.drift)
		}
		if d := mustDecide(t, s, f, cptest.Now); !slices.Equal(d.restart, c.restart) {
			t.Errorf("%s: restarts %q, want %q", c.name, d.restart, c.restart)
		}
	}
}

// TestStaticPodFiles: everything belongs to root, and the definitions are written before anything starts.
func TestStaticPodFiles(t *testing.T) {
	s := podSpec(t)
	d := mustDecide(t, s, bare(), cptest.Now)
	var definitions []string
	for _, file := range d.files {
		if file.Owner != "root" {
			t.Errorf("%s belongs to %s", file.Path, file.Owner)
		}
		if strings.HasPrefix(file.Path, pod.Dir+"/") {
			definitions = append(definitions, file.Path)
		}
	}
	if len(definitions) != len(release.Components()) {
		t.Errorf("writes the definitions %q", definitions)
	}
	if f := converged(t, s); f.ConfigDigest(s.Replica) != s.ConfigDigest() {
		t.Error("the digest of a converged machine is not the planned one")
	}
}

// TestRuntimeMoves: a replica that is moved to another runtime is defined anew, every component starts, and what it ran
// by so far is left first. A Create refuses it.
func TestRuntimeMoves(t *testing.T) {
	pods, units := podSpec(t), testSpec(t)
	for name, c := range map[string]struct{ has, wants Spec }{"to pods": {units, pods}, "to units": {pods, units}} {
		f := converged(t, c.has)
		if c.has.Runtime == component.StaticPod {
			f.Facts.Dirs[staticpod.Directory] = []string{"kube-apiserver.yaml"}
		}
		if err := checkChangeable(c.wants, f); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := machine.Preflight(c.wants.Replica, f); err == nil ||
			!strings.Contains(err.Error(), "an apply of the existing replica changes it") {
			t.Errorf("%s: a Create: %v", name, err)
		}
		if left := leftRuntime(c.wants, f); left == nil || left.OnMachine() == (c.has.Runtime == component.StaticPod) {
			t.Errorf("%s: leaves %T", name, left)
		}
		if left := leftRuntime(c.has, f); left != nil {
			t.Errorf("%s: its own runtime is left: %T", name, left)
		}
		d := mustDecide(t, c.wants, f, cptest.Now)
		by := runtime.Of(c.wants.Replica)
		for _, component := range release.Components() {
			if !d.writes(by.Path(component)) || !d.restarts(component) {
				t.Errorf("%s: %s is written %v, restarted %v", name, component, d.writes(by.Path(component)),
					d.restarts(component))
			}
		}
	}
}

func TestStaticPodRollback(t *testing.T) {
	s := podSpec(t)
	f := converged(t, s)
	before := f.RollbackRecord(s.Bundle.Generations())
	text := machine.ReadRollbackRecord(string(before.File().Content))
	if text == nil || text.Version != s.Version || len(text.Definitions) != len(release.Components()) {
		t.Errorf("a rollback would restore %+v", text)
	}
	if !runsItsRecord(f) {
		t.Error("what runs cannot be restored")
	}
}

// TestStaticPodsWithoutRecord: static pods of the provider whose record is lost belong to the replica of the bundle's
// cluster, as units do, and count as a replica for the others. Those of somebody else are refused.
func TestStaticPodsWithoutRecord(t *testing.T) {
	s := podSpec(t)
	lost := func() machine.Observed {
		f := converged(t, s)
		f.Facts.Dirs[staticpod.Directory] = []string{"etcd.yaml", "kube-apiserver.yaml", "kube-scheduler.yaml"}
		delete(f.Facts.Files, machine.RecordPath)
		return machine.Interpret(f.Facts)
	}
	units := testSpec(t)
	for _, c := range []struct {
		name    string
		wants   Spec
		alter   func(f *machine.Observed)
		refused string
	}{
		{"its own", s, func(*machine.Observed) {}, ""},
		{"edited ones", s, func(f *machine.Observed) {
			lines(f, "\tplaced\n", "\tplaced\nreplica\tkube-scheduler\tedited\n")
		}, ""},
		{"those of another cluster", s, func(f *machine.Observed) {
			edit(f, component.CACert, s.Bundle.Roots(pki.Etcd))
		}, "a kubelet runs kube-apiserver"},
		{"without an authority", s, func(f *machine.Observed) {
			delete(f.Facts.Files, component.CACert)
		}, "a kubelet runs kube-apiserver"},
		{"one that the provider has not defined", s, func(f *machine.Observed) {
			delete(f.Facts.Files, pod.Path(release.Scheduler))
		}, "a kubelet runs kube-scheduler"},
		{"for units", units, func(*machine.Observed) {}, "a kubelet runs kube-apiserver"},
	} {
		f := lost()
		c.alter(&f)
		err := checkChangeable(c.wants, f)
		if text := cptest.Text(err); (c.refused == "") != (err == nil) || !strings.Contains(text, c.refused) {
			t.Errorf("%s: %v, want %q", c.name, err, c.refused)
		}
	}
	f := lost()
	if f.Runtime().OnMachine() || f.EffectiveVersion(release.APIServer) != s.Version {
		t.Errorf("runs version %q by %T", f.EffectiveVersion(release.APIServer), f.Runtime())
	}
	if d := mustDecide(t, s, f, cptest.Now); !d.writes(machine.RecordPath) {
		t.Error("an apply does not write the record")
	}
	st := replicaStatus{name: s.Name}
	if st.read(s.Bundle.ClusterID, f); st.absent || st.unknown == nil {
		t.Errorf("for the other replicas it is %+v", st)
	}
	st = replicaStatus{name: s.Name}
	if st.read(s.Bundle.ClusterID, bare()); !st.absent {
		t.Errorf("a bare machine is %+v", st)
	}
}

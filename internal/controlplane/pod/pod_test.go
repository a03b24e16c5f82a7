package pod

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/componenttest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
)

func wanted(t *testing.T) component.Replica {
	s := componenttest.Stacked(t)
	s.Runtime = component.StaticPod
	return s
}

func TestPods(t *testing.T) {
	s := wanted(t)
	s.Limits = map[string]component.Limits{
		release.ControllerManager: {MemoryMax: "4G", MemoryMin: "1G", CPUQuota: "200%"},
	}
	s.ConfigFiles = map[string]component.ConfigFile{"scheduler.yaml": {}}
	s.ExtraArgs = map[string]map[string]string{
		release.Scheduler: {"config": component.ConfigFilePath("scheduler.yaml")},
	}
	for _, c := range component.Of(s) {
		cptest.Golden(t, c.Name+".yaml", string(File(c).Content))
		if mode := File(c).Mode; mode != 0o600 { // a manifest of kubeadm, whose variables are taken over, has that mode
			t.Errorf("the definition of %s has mode %04o", c.Name, mode)
		}
	}
}

func TestPodsCanBeReadBack(t *testing.T) {
	s := wanted(t)
	s.ImageRepository = "registry.example.com:5000/kubernetes"
	s.Limits = map[string]component.Limits{release.Scheduler: {MemoryMax: "512M", MemoryMin: "1048576", CPUQuota: "50%"}}
	s.Environment = map[string]map[string]string{release.Scheduler: {"GODEBUG": "a=1", "QUOTED": `a "b" 'c': # $HOME`}}
	s.ExtraArgs = map[string]map[string]string{release.APIServer: {
		"spaces": "a b  c", "quotes": `say "it's" \ so`, "dollar": "$(HOME) ${PATH}", "empty": "", "repeated": "b\na",
	}}
	for _, c := range component.Of(s) {
		got, err := Parse(string(File(c).Content))
		if err != nil {
			t.Fatal(err)
		}
		want := Parsed{
			Program: c.Program, Flags: c.Flags, Limits: c.Limits, Environment: c.Environment,
			ImageRepository: s.ImageRepository,
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read back as %+v, want %+v", c.Name, got, want)
		}
		if differences := Differences(string(File(c).Content), c); len(differences) > 0 {
			t.Errorf("%s differs from itself: %q", c.Name, differences)
		}
	}
}

// sh runs a script with the functions of static pods, in a directory of definitions.
func sh(t *testing.T, dir string, script host.Script) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "sh", "-eu", "-c", string(prelude()+
		directories(dir)+script))
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// TestStartNotes: the manifest of a start is the definition with a note of what it reads, and without the note it is
// the definition again.
func TestStartNotes(t *testing.T) {
	dir := t.TempDir()
	input := filepath.Join(dir, "input.conf")
	if err := os.WriteFile(input, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range component.Of(wanted(t)) {
		c.Inputs = []string{input}
		definition := filepath.Join(dir, c.Name+".yaml")
		if err := os.WriteFile(definition, File(c).Content, 0o600); err != nil {
			t.Fatal(err)
		}
		name := host.Words(c.Name)
		manifest := sh(t, dir, "replica_manifest \"$(replica_note "+name+")\" <"+host.Words(definition))
		p, err := staticpod.Parse(manifest)
		if err != nil {
			t.Fatalf("%v\n%s", err, manifest)
		}
		sums := map[string]string{
			input:      "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
			definition: strings.Fields(sh(t, dir, "sha256sum "+host.Words(definition)))[0],
		}
		if !maps.Equal(p.Inputs, sums) {
			t.Errorf("%s was started with %q, want %q", c.Name, p.Inputs, sums)
		}
		again := sh(t, dir, "replica_manifest '' <<'END'\n"+host.Script(manifest)+"END\n")
		if again != string(File(c).Content) {
			t.Errorf("without its note it is\n%s", again)
		}
		if once := sh(t, dir, "replica_note "+name+"; replica_note "+name); strings.Count(once, "start-") != 2 ||
			strings.Split(once, "\n")[0] == strings.Split(once, "\n")[1] {
			t.Errorf("two starts have the same note: %s", once)
		}
	}
}

func TestRead(t *testing.T) {
	id := strings.Repeat("ab", 32)
	output := "pod\truntime\tctr\npod\tkubelet\tactive\npod\tanswers\tkube-scheduler\n" +
		"pod\tcontainer\tkube-scheduler\t" + id + "\tRUNNING\t77\t\nreplica\tkube-scheduler\tdefined\n" +
		"replica\tkube-scheduler\tplaced\nreplica\tkube-scheduler\tversion\t1.36.3\n"
	got := Read(output, release.Scheduler)
	if got.Unit.Active != "active" || got.Unit.MainPID != 77 || got.Unit.NeedReload ||
		got.Program != component.Artifact("1.36.3", release.Scheduler).Path() {
		t.Errorf("read as %+v", got)
	}
	if got := Read(output+"replica\tkube-scheduler\tedited\n", release.Scheduler); !got.Unit.NeedReload {
		t.Error("an edit is not seen")
	}
	empty := strings.Replace(output, "pod\tcontainer", "pod\tother", 1) + "replica\tkube-scheduler\tage\t"
	for text, want := range map[string]string{
		empty + "119\n": "start", empty + "120\n": WithoutContainer, empty + "\n": "start", empty + "-1\n": "start",
		empty + "$(id)\n": "start",
		output + "replica\tkube-scheduler\tage\t999\n":                    "running",
		strings.Replace(empty, "pod\tanswers", "pod\tother", 1) + "999\n": "start", // nobody knows its containers
		strings.Replace(empty, "active", "inactive", 1) + "999\n":         "failed",
	} {
		if got := Read(text, release.Scheduler).Unit; got.Sub != want {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
	if got := Read(output, release.APIServer); got.Unit.Load != "not-found" || got.Program != "" {
		t.Errorf("another component is read as %+v", got)
	}
	if got := Read(strings.ReplaceAll(output, "1.36.3", "$(id)"), release.Scheduler); got.Program != "" {
		t.Errorf("a malformed version is %s", got.Program)
	}
}

func TestValidate(t *testing.T) {
	for want, change := range map[string]func(s *component.Replica){
		"":                         func(*component.Replica) {},
		"run as root":              func(s *component.Replica) { s.SupplementaryGroups = []string{"kms"} },
		"konnectivity does not":    func(s *component.Replica) { s.Konnectivity = &component.Konnectivity{} },
		"malformed image repo":     func(s *component.Replica) { s.ImageRepository = "Example.com/a:1" },
		"memory_high cannot":       limits(component.Limits{MemoryHigh: "1G"}),
		"cpu_weight and io_weight": limits(component.Limits{CPUWeight: 10}),
		"set bytes":                limits(component.Limits{MemoryMin: "10%"}),
		"requests 300m of cpu, and its limit is 200m": func(s *component.Replica) {
			limits(component.Limits{CPUQuota: "20%"})(s)
			s.Patches = patchOf("resources: {requests: {cpu: 300m}}")
		},
		"a mount without its volume: tmp": func(s *component.Replica) {
			s.Patches = patchOf("volumeMounts: [{name: tmp, mountPath: /tmp}]")
		},
		"names /srv/audit.log, where its container cannot write": func(s *component.Replica) {
			s.ExtraArgs = map[string]map[string]string{release.APIServer: {component.AuditLogFlag: "/srv/audit.log"}}
		},
		"names /srv/log/audit.log, where its container cannot write": func(s *component.Replica) {
			s.ExtraArgs = map[string]map[string]string{release.APIServer: {component.AuditLogFlag: "/srv/log/audit.log"}}
			s.ExtraVolumes = map[string]map[string]component.Volume{release.APIServer: {
				"logs": {HostPath: "/srv", MountPath: "/srv"}, "log": {HostPath: "/srv/log", MountPath: "/srv/log", ReadOnly: true},
			}}
		},
		"names /etc/x, which its container": func(s *component.Replica) {
			s.ExtraArgs = map[string]map[string]string{release.Scheduler: {"config": "/etc/x"}}
		},
	} {
		s := wanted(t)
		change(&s)
		err := Validate(s)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// patchOf returns patches with fields of the API server's container.
func patchOf(fields string) map[string]string {
	return map[string]string{release.APIServer: "spec: {containers: [{name: kube-apiserver, " + fields + "}]}"}
}

// TestSmallQuota: a pod requests no more processors than it may use, also before its files are known.
func TestSmallQuota(t *testing.T) {
	s := wanted(t)
	limits(component.Limits{CPUQuota: "20%"})(&s)
	for _, c := range component.Of(s) {
		if p := Of(c); c.Name == release.APIServer && (p.Requests["cpu"] != "200m" || p.Limits["cpu"] != "200m") {
			t.Errorf("it requests %s of %s", p.Requests["cpu"], p.Limits["cpu"])
		}
	}
	s.Patches = patchOf("volumeMounts: [{name: k8s-certs, mountPath: /srv}], resources: {requests: {cpu: 200m}}")
	if err := Validate(s); err != nil {
		t.Error(err)
	}
	s.Bundle = nil
	if err := Validate(s); err != nil {
		t.Errorf("without a bundle: %v", err)
	}
}

func limits(l component.Limits) func(s *component.Replica) {
	return func(s *component.Replica) { s.Limits = map[string]component.Limits{release.APIServer: l} }
}

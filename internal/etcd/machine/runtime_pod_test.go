package machine

import (
	"encoding/base64"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/etcdtest"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/node"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
)

var update = flag.Bool("update", false, "write the golden files")

func podSpec(t *testing.T) Spec {
	t.Helper()
	s := specAt(t, "10.0.0.11")
	s.Runtime, s.Bundle = StaticPod, etcdtest.Bundle(t)
	return s
}

// podFacts returns what a machine with the pod of s reports.
func podFacts(s Spec) host.Facts {
	manifest := s.pod().Manifest()
	var note []string
	for path, digest := range s.pod().Note() {
		note = append(note, digest+":"+path)
	}
	facts := host.Facts{
		Files: map[string]host.FileState{},
		Dirs:  map[string][]string{s.Directory(): {"member"}},
		Output: "pod\truntime\tctr\npod\tkubelet\tactive\npod\tanswers\tetcd\npod\timage\tx\npod\tcontainer\tetcd\t" +
			strings.Repeat("ab", 32) + "\tRUNNING\t42\t" +
			base64.StdEncoding.EncodeToString([]byte(strings.Join(note, " "))) + "\nguard\t/var/lib/etcd/member\n",
	}
	for _, file := range append(FixedFiles(s), host.File{Path: ManifestPath, Content: manifest, Mode: 0o600}) {
		facts.Files[file.Path] = host.FileState{
			Content: string(file.Content), SHA256: Digest(file.Content), Mode: file.Mode,
		}
	}
	return facts
}

func edited(facts host.Facts, path, before, after string) host.Facts {
	file := facts.Files[path]
	file.Content = strings.ReplaceAll(file.Content, before, after)
	file.SHA256 = Digest([]byte(file.Content))
	facts.Files[path] = file
	return facts
}

func TestPodManifest(t *testing.T) {
	s := podSpec(t)
	// The digests depend on the bundle, which is another one each time.
	got := string(s.pod().Manifest())
	for _, digest := range s.pod().Note() {
		got = strings.ReplaceAll(got, digest, "DIGEST")
	}
	golden := filepath.Join("testdata", "etcd-pod.yaml")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(golden); err != nil || got != string(want) {
		t.Errorf("%v\n%s", err, got)
	}
	at, err := InstallationIn(string(s.pod().Manifest()))
	if err != nil || at.version != s.Version || at.Tools != ArtifactDir(s.Version) || at.DataDir != s.Directory() ||
		UnitVersion(string(s.pod().Manifest())) != s.Version {
		t.Errorf("installed as %+v: %v", at, err)
	}
}

// TestPodDiffers checks what is drift of a pod, and what restarts it.
func TestPodDiffers(t *testing.T) {
	s := podSpec(t)
	joined := s
	joined.initial = initialFlags(Environment("id", "existing", map[string]string{"a": "https://10.0.0.11:2380"}))
	if len(joined.initial) != 3 {
		t.Fatalf("flags of the bootstrap: %q", joined.initial)
	}
	other := s
	other.ExtraArgs = map[string]string{"max-txn-ops": "300"}
	for _, c := range []struct {
		name           string
		facts          host.Facts
		drift, restart string
	}{
		{"nothing", podFacts(s), "", ""},
		{"the flags of the bootstrap", podFacts(joined), "", ""},
		{
			"an edited manifest", edited(podFacts(s), ManifestPath, "--name=", "--x=1\n    - --name="),
			`flag --x is "1", wanted not to be set`, "it was started with a different " + layout.PodPath,
		},
		{
			"a comment in the manifest", edited(podFacts(s), ManifestPath, "kind: Pod", "kind: Pod # by hand"),
			ManifestPath + " was edited manually", "it was started with a different " + layout.PodPath,
		},
		{
			"an edited definition", edited(podFacts(s), layout.PodPath, "--name=", "--x=1\n    - --name="), "", "",
		},
		{
			"another spec", podFacts(other), `flag --max-txn-ops is "300", wanted not to be set`,
			"it was started with a different " + layout.PodPath,
		},
		{
			"a container of before", func() host.Facts {
				facts := podFacts(s)
				facts.Output = podFacts(other).Output
				return facts
			}(), "", "it was started with a different " + layout.PodPath,
		},
		{
			"an edited authority", edited(podFacts(s), layout.CAPath, "A", "B"), "",
			layout.CAPath + " is another one, which a new container would read",
		},
		{
			"a copy", func() host.Facts {
				facts := podFacts(s)
				facts.Output += "pod\tduplicate\tetcd\t" + ManifestPath + ".bak\n"
				return facts
			}(), ".bak is another manifest of the pod", "another manifest of the pod is moved away",
		},
		{
			"no container", func() host.Facts {
				facts := podFacts(s)
				facts.Output = "pod\truntime\tctr\npod\tkubelet\tactive\npod\tanswers\tetcd\nguard\t/var/lib/etcd/member\n"
				return facts
			}(), "static pod etcd is activating, wanted active", "it is activating",
		},
		{
			"no data, so that the kubelet does not start it", func() host.Facts {
				facts := podFacts(s)
				facts.Dirs = nil
				facts.Output = "pod\truntime\tctr\npod\tkubelet\tactive\npod\tanswers\tetcd\nguard\t/var/lib/etcd/member\n"
				return facts
			}(), "static pod etcd is failed, wanted active", "it is failed",
		},
		{
			"an open guard", func() host.Facts {
				facts := podFacts(s)
				facts.Output = strings.Replace(facts.Output, "guard\t/var/lib/etcd/member", "guard\t/etc/etcd", 1)
				return facts
			}(), layout.StartGuard + ` leads to "/etc/etcd", wanted "/var/lib/etcd/member"`, "",
		},
	} {
		f := Interpret(s.Name, "10.0.0.11", s.Directory(), c.facts, nil)
		words := strings.Join(slices.Concat(unitStateDrift(f), UnitFileDrift(s, f)), "\n")
		if (words == "") != (c.drift == "") || !strings.Contains(words, c.drift) {
			t.Errorf("%s: drift %q, want %q", c.name, words, c.drift)
		}
		if got := restartReason(s, f, nil); got != c.restart {
			t.Errorf("%s: restart %q, want %q", c.name, got, c.restart)
		}
		if open := strings.Contains(string(s.guardRepair(f)), "member_guard\n"); open != (c.name == "an open guard") {
			t.Errorf("%s: the guard is repaired: %v", c.name, open)
		}
		r, err := Repairs(s, f, nil, time.Now())
		if err != nil || slices.ContainsFunc(r.Change.Files, func(file host.File) bool { return file.Path == ManifestPath }) {
			t.Errorf("%s: the manifest is written without stopping the pod: %v", c.name, err)
		}
	}
	f := Interpret(s.Name, "10.0.0.11", s.Directory(), podFacts(joined), nil)
	if ConfigDigest(f.Facts.Files) != WantedDigest(s) {
		t.Error("the flags of the bootstrap change the digest")
	}
}

// TestAfterPod checks that a pod that was just started is as an observation would show it.
func TestAfterPod(t *testing.T) {
	s := podSpec(t)
	issued, err := Certificates(s, Observed{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	env := Environment("id", "new", map[string]string{s.Name: s.PeerURL()})
	change, _ := NewMemberChange(s, Observed{}, issued, ID{Member: 1, Cluster: 2}, env)
	change.Files = slices.DeleteFunc(change.Files, func(f host.File) bool { return f.Path == layout.EnvPath })
	f := Observed{Name: s.Name, Address: "10.0.0.11"}.After(s, change)
	entry := &membership.Member{Version: s.Version, Healthy: true}
	if words := Drift(s, f, entry, time.Now()); len(words) > 0 || ConfigDigest(f.Facts.Files) != WantedDigest(s) {
		t.Errorf("drift %q", words)
	}
}

// TestImportPod checks what a machine with a pod tells of it.
func TestImportPod(t *testing.T) {
	s := podSpec(t)
	s.Image, s.Environment = "example.com/etcd:1", map[string]string{"GOGC": "90"}
	s.ExtraArgs = map[string]string{"max-txn-ops": "256"}
	facts := podFacts(s)
	facts.Files[layout.RecordPath] = host.FileState{Content: string(recordFile(s, ID{Member: 1, Cluster: 2}, nil).Content)}
	facts.Output += `{"members":[{"name":"cp1","peerURLs":["https://10.0.0.11:2380"]},` +
		`{"name":"cp2","peerURLs":["https://10.0.0.12:2380"]}]}` + "\n"
	got, err := ReadImported(s.Host, facts)
	if err != nil || got.Runtime != StaticPod || got.Image != s.Image || got.Alone || len(got.Peers) != 2 ||
		got.Environment["GOGC"] != "90" || got.Version != s.Version || got.DataDir != s.Directory() ||
		len(got.ExtraArgs) != 1 || got.ExtraArgs["max-txn-ops"] != "256" {
		t.Errorf("%v: %+v", err, got)
	}
}

func TestOtherRuntime(t *testing.T) {
	pod, unit := podSpec(t), specAt(t, "10.0.0.11")
	onPod := Interpret("a", "10.0.0.11", pod.Directory(), podFacts(pod), nil)
	onUnit := Interpret("a", "10.0.0.11", unit.Directory(),
		host.Facts{Files: map[string]host.FileState{layout.UnitPath: {Content: renderUnit(unit)}}}, nil)
	for _, c := range []struct {
		f    Observed
		s    Spec
		want string
	}{
		{onPod, pod, ""},
		{onUnit, unit, ""},
		{onPod, unit, "runs as a static pod"},
		{onUnit, pod, "runs as etcd.service"},
		{Observed{}, pod, ""},
	} {
		if got := c.f.OtherRuntime(c.s); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestPodPreflight(t *testing.T) {
	s := podSpec(t)
	healthy := staticpod.State{
		Reported: true, Runtime: "ctr", Answers: true, Kubelet: "active", Manifests: staticpod.Directory,
	}
	foreign := host.Facts{Files: map[string]host.FileState{ManifestPath: {Content: "kind: Pod"}}}
	for _, c := range []struct {
		f    Observed
		want string
	}{
		{Observed{Pod: healthy}, ""},
		{Observed{}, "kubelet.service is missing"},
		{Observed{Pod: healthy, Facts: foreign}, "is the manifest of an etcd that the provider does not manage"},
	} {
		if got := strings.Join(s.podProblems(c.f), "\n"); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestValidateImage(t *testing.T) {
	for image, valid := range map[string]bool{
		DefaultImage("3.6.16"): true, "localhost:5000/etcd:1": true,
		"example.com/etcd@sha256:" + strings.Repeat("a", 64): true,
		"example.com:5000/etcd":                              false, "a b:1": false, "": false, "x:$(id)": false,
	} {
		if err := ValidateImage(image); (err == nil) != valid {
			t.Errorf("%q: %v", image, err)
		}
	}
}

// TestPreparedOn: the machine of another member gets neither the image of a member that has another one, or another
// runtime, nor its kubelet.
func TestPreparedOn(t *testing.T) {
	s := podSpec(t)
	s.InstallKubelet = &node.Wanted{}
	at := func(address string, facts host.Facts) Observed {
		return Interpret("cp", address, s.Directory(), facts, nil)
	}
	own := at("10.0.0.11", podFacts(s))
	mirrored := s
	mirrored.Image = "registry.example.com/etcd:" + s.Version
	unit := host.Facts{Files: map[string]host.FileState{layout.UnitPath: {Content: renderUnit(s)}}}
	for name, c := range map[string]struct {
		f       Observed
		image   bool
		kubelet bool
	}{
		"its own machine":         {own, true, true},
		"the same image":          {at("10.0.0.12", podFacts(s)), true, false},
		"another image":           {at("10.0.0.12", podFacts(mirrored)), false, false},
		"a unit, with containerd": {at("10.0.0.12", unit), false, false},
		"a machine without etcd":  {at("10.0.0.12", host.Facts{}), false, false},
	} {
		got := s.PreparedOn(c.f, own)
		if image := got.Runtime == StaticPod; image != c.image || (got.InstallKubelet != nil) != c.kubelet {
			t.Errorf("%s: with the image %t, the kubelet %v", name, image, got.InstallKubelet)
		}
		c.f.Facts.Dirs = nil
		c.f.Pod.Answers, c.f.Pod.HasImage = true, false
		missing := MissingArtifacts(got, c.f)
		if want := len(Artifacts(s.Version)); !c.image && len(missing) != want || c.image && len(missing) != want+1 {
			t.Errorf("%s: %q is missing", name, missing)
		}
	}
}

// TestRunsDefinition: a pod that was started with what is wanted would be the same after another start.
func TestRunsDefinition(t *testing.T) {
	s := podSpec(t)
	f := Interpret("cp1", "10.0.0.11", s.Directory(), podFacts(s), nil)
	other := s
	other.Image = "registry.example.com/etcd:" + s.Version
	unit := s
	unit.Runtime = Systemd
	if !f.RunsDefinition(s) || f.RunsDefinition(other) || f.RunsDefinition(unit) {
		t.Errorf("runs %v, with another image %v, as a unit %v", f.RunsDefinition(s), f.RunsDefinition(other),
			f.RunsDefinition(unit))
	}
	if (Observed{}).RunsDefinition(s) {
		t.Error("a machine without etcd runs it")
	}
}

// TestCheckImage: the tag of an image must not name another version than the one that the upgrade rules see. What names
// none is left to the user.
func TestCheckImage(t *testing.T) {
	const digest = "@sha256:0123"
	for image, ok := range map[string]bool{
		"":                                      true,
		"registry.k8s.io/etcd:3.6.16-0":         true,
		"quay.io/coreos/etcd:v3.6.16":           true,
		"example.com:5000/etcd" + digest:        true,
		"example.com:5000/etcd:stable":          true,
		"example.com/etcd:3.7":                  true,
		"example.com/etcd:1.0.4":                true,
		"example.com/etcd:3.6.16-0" + digest:    true,
		"registry.k8s.io/etcd:3.6.17-0":         false,
		"quay.io/coreos/etcd:v3.7.0":            false,
		"example.com:5000/etcd:3.5.35-0":        false,
		"example.com:5000/etcd:3.5.35" + digest: false,
		"example.com/etcd:3.6.15-debian-12-r1":  false,
		"registry.k8s.io/etcd:3.6.160-0":        false,
	} {
		s := Spec{Version: "3.6.16", Image: image, Runtime: StaticPod}
		if err := s.CheckImage(); (err == nil) != ok {
			t.Errorf("%q: %v", image, err)
		}
		s.Runtime = Systemd
		if err := s.CheckImage(); err != nil {
			t.Errorf("%q of a unit: %v", image, err)
		}
	}
}

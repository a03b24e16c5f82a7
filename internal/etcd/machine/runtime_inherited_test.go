package machine

import (
	"encoding/base64"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// inheritedSpec is the configuration of the member of kubeadm in testdata of package staticpod.
func inheritedSpec(t *testing.T) Spec {
	t.Helper()
	s := podSpec(t)
	s.Name, s.Version = "cp1", "3.6.16"
	s.ExtraArgs = map[string]string{"snapshot-count": "10000"}
	return s
}

// inheritedFacts returns what a machine with a member of kubeadm reports.
func inheritedFacts(t *testing.T, s Spec) host.Facts {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "staticpod", "testdata", "kubeadm", "etcd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	facts := podFacts(s)
	noted := base64.StdEncoding.EncodeToString([]byte("x"))
	at := strings.LastIndex(facts.Output[:strings.Index(facts.Output, "\nguard")], "\t")
	facts.Output = facts.Output[:at+1] + noted + "\n"
	delete(facts.Files, layout.PodPath)
	facts.Files[manifestPath] = host.FileState{Content: string(text), SHA256: Digest(text), Mode: 0o600}
	for _, l := range leaves(s) {
		pair, err := s.Bundle.Issue(l, time.Now(), 0)
		if err != nil {
			t.Fatal(err)
		}
		facts.Files[CertificatePath(l)] = host.FileState{
			Content: pair.Certificate, SHA256: Digest([]byte(pair.Certificate)), Mode: 0o644, Owner: "root",
		}
		facts.Files[keyPath(l)] = host.FileState{SHA256: Digest([]byte(pair.PrivateKey)), Mode: 0o600, Owner: "root"}
	}
	facts.Dirs[ArtifactDir(s.Version)] = []string{"etcd", "etcdctl", "etcdutl"}
	return facts
}

func healthy(s Spec) *membership.View {
	return &membership.View{ClusterID: 7, Members: []membership.Member{{
		ID: 1, Name: s.Name, PeerURLs: []string{s.PeerURL()}, Version: s.Version, Healthy: true,
	}}}
}

// takenOver returns the facts after a repair, which restarts nothing.
func takenOver(t *testing.T, s Spec, facts host.Facts) host.Facts {
	t.Helper()
	f := Interpret(s.Name, "10.0.0.11", s.Directory(), facts, nil)
	r, err := Repairs(s, f, healthy(s), time.Now())
	if err != nil || r.Restart != "" {
		t.Fatalf("restart %q, %v", r.Restart, err)
	}
	facts.Files = maps.Clone(facts.Files)
	for _, file := range r.Change.Files {
		facts.Files[file.Path] = host.FileState{
			Content: string(file.Content), SHA256: Digest(file.Content), Mode: file.Mode, Owner: OrRoot(file.Owner),
		}
	}
	facts.Output += "guard\t" + s.guardTarget() + "\n"
	return facts
}

func driftOf(s Spec, facts host.Facts) string {
	f := Interpret(s.Name, "10.0.0.11", s.Directory(), facts, nil)
	return strings.Join(Drift(s, f, EntryOf(healthy(s), s), time.Now()), "\n")
}

// TestInheritedMember: a member of kubeadm is taken over without a restart and without new certificates, and then has
// no drift. What the configuration changes, and another CA pool, restart it.
func TestInheritedMember(t *testing.T) {
	s := inheritedSpec(t)
	facts := inheritedFacts(t, s)
	f := Interpret(s.Name, "10.0.0.11", s.Directory(), facts, nil)
	if !f.RecordLost(s, healthy(s)) || f.NotTakenOver(s) != "" {
		t.Errorf("it is not taken over: %q", f.NotTakenOver(s))
	}
	want := "cp1: /etc/etcd/member.json is missing: kubeadm has created the member\n" +
		"cp1: /etc/etcd/start-allowed leads to \"\", wanted \"/var/lib/etcd/member\"\n" +
		"cp1: /etc/etcd/etcd.yaml is missing"
	if got := driftOf(s, facts); got != want {
		t.Errorf("drift is\n%s\nwant\n%s", got, want)
	}
	facts = takenOver(t, s, facts)
	if got := driftOf(s, facts); got != "" {
		t.Errorf("drift after the takeover: %s", got)
	}
	for name, c := range map[string]struct {
		edit func(*Spec)
		want string
	}{
		"a flag": {func(s *Spec) { s.ExtraArgs["v"] = "1" }, `flag --v is missing, wanted "1"`},
		"a removed flag": {
			func(s *Spec) { delete(s.ExtraArgs, "snapshot-count") }, `flag --snapshot-count is "10000", wanted not`,
		},
		"a version": {func(s *Spec) { s.Version = "3.6.17" }, "etcd 3.6.16 is running"},
		"a variable": {
			func(s *Spec) { s.Environment = map[string]string{"GOGC": "9"} }, "the variables of the environment",
		},
		"the CA, stage 1": {
			func(s *Spec) { s.Bundle = rotated(t, s.Bundle) }, "it was started with a different " + layout.CAPath,
		},
	} {
		changed := s
		changed.ExtraArgs = maps.Clone(s.ExtraArgs)
		c.edit(&changed)
		f := Interpret(s.Name, "10.0.0.11", s.Directory(), facts, nil)
		r, err := Repairs(changed, f, healthy(s), time.Now())
		if err != nil || !strings.HasPrefix(r.Restart, c.want) {
			t.Errorf("%s: restart because %q, %v; want %q", name, r.Restart, err, c.want)
		}
	}
	// A rotation that was cut off before the restart is still known.
	next := s
	next.Bundle = rotated(t, s.Bundle)
	f = Interpret(s.Name, "10.0.0.11", s.Directory(), facts, nil)
	r, err := Repairs(next, f, healthy(s), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range r.Change.Files {
		facts.Files[file.Path] = host.FileState{
			Content: string(file.Content), SHA256: Digest(file.Content), Mode: file.Mode, Owner: OrRoot(file.Owner),
		}
	}
	f = Interpret(s.Name, "10.0.0.11", s.Directory(), facts, nil)
	if r, err = Repairs(next, f, healthy(s), time.Now()); err != nil || r.Restart == "" {
		t.Errorf("a restart that was cut off is forgotten: %v", err)
	}
}

// TestMemberReturns: a member that has run as a unit gets the manifest of kubeadm back, if that says what the
// configuration does.
func TestMemberReturns(t *testing.T) {
	s := inheritedSpec(t)
	facts := takenOver(t, s, inheritedFacts(t, s))
	manifest := facts.Files[manifestPath]
	record := facts.Files[layout.RecordPath]
	if !strings.Contains(record.Content, `"inherited"`) {
		t.Fatalf("the record of the takeover is %s", record.Content)
	}
	place := func(at host.Facts, change host.Change) host.Facts {
		at.Files = maps.Clone(at.Files)
		for _, file := range change.Files {
			at.Files[file.Path] = host.FileState{
				Content: string(file.Content), SHA256: Digest(file.Content), Mode: file.Mode, Owner: OrRoot(file.Owner),
			}
		}
		return at
	}
	repairs := func(s Spec, at host.Facts) Repair {
		t.Helper()
		r, err := Repairs(s, Interpret(s.Name, "10.0.0.11", s.Directory(), at, nil), healthy(s), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	unit := s
	unit.Runtime, unit.Image = Systemd, ""
	left := facts // as LeaveRuntime leaves it
	left.Output = ""
	left.Files = maps.Clone(facts.Files)
	left.Files[keptPath], left.Files[returnsPath] = manifest, host.FileState{}
	delete(left.Files, manifestPath)
	delete(left.Files, layout.PodPath)
	asUnit := place(left, repairs(unit, left).Change)
	if strings.Contains(asUnit.Files[layout.RecordPath].Content, `"inherited"`) || repairs(unit, left).Returns {
		t.Errorf("a unit counts as inherited: %s", asUnit.Files[layout.RecordPath].Content)
	}
	delete(asUnit.Files, layout.UnitPath)

	changed := s
	changed.ExtraArgs = map[string]string{"snapshot-count": "20000"}
	if r := repairs(changed, asUnit); r.Returns || r.Restart == "" {
		t.Errorf("another configuration: %+v", r)
	}
	r := repairs(s, asUnit)
	if !r.Returns || r.Restart == "" {
		t.Fatalf("the manifest of kubeadm is not used again: restart %q", r.Restart)
	}
	begun := place(asUnit, r.Change) // cut off before the start
	if r := repairs(s, begun); !r.Returns || r.Restart == "" {
		t.Errorf("after a start that was cut off: %+v", r)
	}
	if r := repairs(changed, begun); r.Returns {
		t.Errorf("another configuration after that: %+v", r)
	}
	begun.Files[manifestPath], begun.Output = manifest, facts.Output
	if r := repairs(s, begun); r.Returns || r.Restart != "" || driftOf(s, begun) != "" {
		t.Errorf("after the start: %+v, drift %q", r, driftOf(s, begun))
	}
	// A manifest that somebody has taken away was perhaps already the provider's.
	lost := asUnit
	lost.Files = maps.Clone(asUnit.Files)
	lost.Files[layout.PodPath] = facts.Files[layout.PodPath]
	if r := repairs(s, lost); r.Returns {
		t.Errorf("a definition of the provider is ignored: %+v", r)
	}
	// One that ran from the provider's manifest when it left the kubelet does so again.
	own := asUnit
	own.Files = maps.Clone(asUnit.Files)
	delete(own.Files, returnsPath)
	if r := repairs(s, own); r.Returns {
		t.Errorf("it did not run from the manifest that was kept: %+v", r)
	}
}

func rotated(t *testing.T, b *pki.Bundle) *pki.Bundle {
	t.Helper()
	next, err := b.Rotate(map[pki.Part]int{pki.EtcdPart: 1}, pki.Next{}, pki.Options{Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// TestInheritedWithAnotherCA: a takeover never changes the CA pool.
func TestInheritedWithAnotherCA(t *testing.T) {
	s := inheritedSpec(t)
	facts := inheritedFacts(t, s)
	s.Bundle = rotated(t, s.Bundle)
	f := Interpret(s.Name, "10.0.0.11", s.Directory(), facts, nil)
	if got := f.NotTakenOver(s); !strings.Contains(got, "has other authorities than the bundle") {
		t.Errorf("%q", got)
	}
}

// TestInheritedOtherwise: a takeover changes neither the runtime nor the version.
func TestInheritedOtherwise(t *testing.T) {
	s := inheritedSpec(t)
	facts := inheritedFacts(t, s)
	f := Interpret(s.Name, "10.0.0.11", s.Directory(), facts, nil)
	for want, edit := range map[string]func(*Spec){
		`runtime = "static_pod" first`: func(s *Spec) { s.Runtime, s.Image = Systemd, "" },
		`runs etcd "3.6.16"`:           func(s *Spec) { s.Version = "3.6.17" },
	} {
		other := s
		edit(&other)
		if got := f.NotTakenOver(other); !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestImportInherited(t *testing.T) {
	s := inheritedSpec(t)
	facts := inheritedFacts(t, s)
	facts.Files[ClusterCAPath] = host.FileState{Content: s.Bundle.Anchors(pki.Kubernetes)}
	got, err := ReadImported(s.Host, facts)
	if err != nil {
		t.Fatal(err)
	}
	added := got.Added
	got.Added = nil
	want := Imported{
		ClusterID: pki.ClusterIDOf(CertificatesOf(s.Bundle.Anchors(pki.Kubernetes))[0].Raw), Name: "cp1",
		Peers: map[string]string{"cp1": "10.0.0.11"}, Version: "3.6.16", Runtime: StaticPod,
		Image: DefaultImage("3.6.16"), ExtraArgs: s.ExtraArgs, DataDir: layout.DefaultDataDir,
		SnapshotsKept: s.UpgradeSnapshots(), ArchivesKept: s.archives(), Alone: true,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("imported as\n%+v\nwant\n%+v", got, want)
	}
	if text := strings.Join(added, " "); text != "--auto-compaction-mode=periodic --auto-compaction-retention=1h "+
		"--quota-backend-bytes=8589934592" {
		t.Errorf("the next restart adds %q", text)
	}
	for name, c := range map[string]struct{ before, after, want string }{
		"volume": {
			"      path: /var/lib/etcd\n", "      path: /srv\n", "changes what the provider sets itself: volume etcd-data",
		},
		"unknown flag": {"--snapshot-count=10000", "--no-such-flag=1", "no-such-flag"},
		"managed flag": {
			"--client-cert-auth=true", "--client-cert-auth=false", `flag --client-cert-auth is "false", wanted "true"`,
		},
		"data log": {"    - --name=cp1", "    - --name=cp1\n    - --wal-dir=/var/lib/etcd/wal", "flag --wal-dir"},
		"image":    {"etcd:3.6.16-0", "etcd:latest", `the image "registry.k8s.io/etcd:latest" does not name a version`},
		"other address": {
			"advertise-client-urls=https://10.0.0.11", "advertise-client-urls=https://10.0.0.12", "is advertised at",
		},
	} {
		changed := facts
		changed.Files = maps.Clone(facts.Files)
		if _, err := ReadImported(s.Host, edited(changed, manifestPath, c.before, c.after)); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestKeepsInheritedManifest runs the script that keeps kubeadm's manifest before the member is stopped.
func TestKeepsInheritedManifest(t *testing.T) {
	dir := t.TempDir()
	run := func(line host.Script) string {
		t.Helper()
		script := runtimeFunctions() + "pod_manifests=" + host.Words(dir+"/manifests") + "\nmember_unit_file=" +
			host.Words(dir+"/unit") + "\nmember_definition=" + host.Words(dir+"/definition") + "\nmember_inherited=" +
			host.Words(dir+"/inherited") + "\n" + line + "\n"
		out, err := exec.Command("sh", "-euc", string(script)).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	if got := run("member_keep; member_is_pod || echo none"); got != "none\n" {
		t.Errorf("a machine without a member: %q", got)
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "staticpod", "testdata", "kubeadm", "etcd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	place := func(text []byte) {
		t.Helper()
		if err := os.MkdirAll(dir+"/manifests", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/manifests/etcd.yaml", text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	place(text)
	if got := run("member_keep; member_is_pod && echo pod"); got != "pod\n" {
		t.Errorf("a member of kubeadm: %q", got)
	}
	place(podSpec(t).pod().Manifest())
	run("member_keep")
	if kept, err := os.ReadFile(dir + "/inherited/etcd.yaml"); err != nil || string(kept) != string(text) {
		t.Errorf("kept: %v\n%s", err, kept)
	}
}

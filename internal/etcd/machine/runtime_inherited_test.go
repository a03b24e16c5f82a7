package machine

import (
	"crypto/tls"
	"encoding/base64"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
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
	facts.Files[ManifestPath] = host.FileState{Content: string(text), SHA256: Digest(text), Mode: 0o600}
	for _, l := range leaves(s) {
		pair, err := s.Bundle.Issue(l, time.Now(), 0)
		if err != nil {
			t.Fatal(err)
		}
		facts.Files[CertificatePath(l)] = host.FileState{
			Content: pair.Certificate, SHA256: Digest([]byte(pair.Certificate)), Mode: 0o644, Owner: "root",
		}
		facts.Files[keyPath(l)] = host.FileState{
			Content: pair.PrivateKey, SHA256: Digest([]byte(pair.PrivateKey)), Mode: 0o600, Owner: "root",
		}
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

// TestInheritedModes: files that fewer users can read than should get their modes, and stay what they are; a key that
// others can read is replaced.
func TestInheritedModes(t *testing.T) {
	s := inheritedSpec(t)
	server := leaves(s)[0]
	for name, c := range map[string]struct {
		certificate, key fs.FileMode
		script           string
		issued           bool
	}{
		"as they should be":   {0o644, 0o600, "", false},
		"a hardened machine":  {0o600, 0o400, "chmod 0644 " + CertificatePath(server) + "\n", false},
		"a key for a group":   {0o600, 0o640, "", true},
		"an open certificate": {0o664, 0o600, "", true},
	} {
		facts := inheritedFacts(t, s)
		for p, mode := range map[string]fs.FileMode{CertificatePath(server): c.certificate, keyPath(server): c.key} {
			state := facts.Files[p]
			state.Mode = mode
			facts.Files[p] = state
		}
		f := Interpret(s.Name, "10.0.0.11", s.Directory(), facts, nil)
		r, err := Repairs(s, f, healthy(s), time.Now())
		if err != nil || r.Restart != "" {
			t.Errorf("%s: restart %q, %v", name, r.Restart, err)
		}
		issued := slices.ContainsFunc(r.Change.Files, func(file host.File) bool {
			return file.Path == CertificatePath(server)
		})
		if issued != c.issued || !strings.Contains(string(r.Timers), c.script) ||
			strings.Contains(string(r.Timers), "chmod") != (c.script != "") {
			t.Errorf("%s: issued %v, script %q", name, issued, r.Timers)
		}
		want := c.certificate != 0o644 || c.key != 0o600
		if drifts := strings.Contains(driftOf(s, facts), "has mode"); drifts != want {
			t.Errorf("%s: drift %v, want %v", name, drifts, want)
		}
	}
}

// TestTakeoverCutOff: a takeover that issues certificates and is cut off between any two files leaves nothing that the
// next one takes for a pair of kubeadm.
func TestTakeoverCutOff(t *testing.T) {
	s, now := inheritedSpec(t), time.Now()
	var err error
	if s.Bundle, err = pki.Generate(pki.Options{ClusterName: "prod", Algorithm: pki.ECDSAP256, Now: now}); err != nil {
		t.Fatal(err)
	}
	server := leaves(s)[0]
	mode := func(path string, mode fs.FileMode) func(map[string]host.FileState) {
		return func(files map[string]host.FileState) {
			state := files[path]
			state.Mode = mode
			files[path] = state
		}
	}
	for name, c := range map[string]struct {
		at   time.Time
		edit func(files map[string]host.FileState)
	}{
		"due":                 {now.AddDate(0, 0, 360), func(map[string]host.FileState) {}},
		"an open key":         {now, mode(keyPath(server), 0o640)},
		"an open certificate": {now, mode(CertificatePath(server), 0o664)},
		"no key":              {now, func(files map[string]host.FileState) { delete(files, keyPath(server)) }},
		"no certificate":      {now, func(files map[string]host.FileState) { delete(files, CertificatePath(server)) }},
		"a key of a user": {now, func(files map[string]host.FileState) {
			state := files[keyPath(server)]
			state.Owner = "joe"
			files[keyPath(server)] = state
		}},
	} {
		before := inheritedFacts(t, s)
		c.edit(before.Files)
		repaired := func(at host.Facts, upTo int) (host.Facts, int) {
			t.Helper()
			r, err := Repairs(s, Interpret(s.Name, "10.0.0.11", s.Directory(), at, nil), healthy(s), c.at)
			if err != nil {
				t.Fatal(err)
			}
			at.Files = maps.Clone(at.Files)
			for i, file := range r.Change.Files {
				if upTo < 0 || i < upTo {
					at.Files[file.Path] = host.FileState{
						Content: string(file.Content), SHA256: Digest(file.Content), Mode: file.Mode, Owner: OrRoot(file.Owner),
					}
				}
			}
			return at, len(r.Change.Files)
		}
		_, all := repaired(before, 0)
		for i := range all {
			cut, _ := repaired(before, i)
			after, _ := repaired(cut, -1)
			for _, l := range leaves(s) {
				certificate, key := after.Files[CertificatePath(l)].Content, after.Files[keyPath(l)].Content
				if _, err := tls.X509KeyPair([]byte(certificate), []byte(key)); err != nil {
					t.Errorf("%s: after %d of %d files, %s is no pair: %v", name, i, all, l.Name, err)
				}
			}
		}
	}
}

// TestPodBelongsToRoot: a pod may run as root without capabilities, which can neither enter nor read what belongs to
// another user. What a takeover and a renewal write is root's, and what an earlier version has given to the user etcd
// is given back without a restart and without new certificates.
func TestPodBelongsToRoot(t *testing.T) {
	s := inheritedSpec(t)
	repairs := func(at host.Facts) Repair {
		t.Helper()
		r, err := Repairs(s, Interpret(s.Name, "10.0.0.11", s.Directory(), at, nil), healthy(s), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range r.Change.Dirs {
			if dir.Path == s.Directory() && OrRoot(dir.Owner) != "root" {
				t.Errorf("the data directory is given to %s", dir.Owner)
			}
		}
		return r
	}
	facts := inheritedFacts(t, s)
	if r := repairs(facts); len(r.Change.Dirs) == 0 || strings.HasSuffix(string(r.Timers), "}\nmember_own\n") {
		t.Errorf("a takeover changes %v, or gives files to others", r.Change.Dirs)
	}
	lost := inheritedFacts(t, s)
	delete(lost.Files, CertificatePath(leaves(s)[0]))
	renewed := repairs(lost)
	for _, file := range renewed.Change.Files {
		if OrRoot(file.Owner) != "root" || OrRoot(file.Group) != "root" {
			t.Errorf("%s belongs to %s:%s", file.Path, file.Owner, file.Group)
		}
	}
	if !renewed.Issues {
		t.Error("no certificate is issued")
	}

	facts = takenOver(t, s, facts)
	facts.Files[s.Directory()] = host.FileState{Mode: fs.ModeDir | 0o700, Owner: layout.User}
	key := keyPath(leaves(s)[0])
	state := facts.Files[key]
	state.Owner = layout.User
	facts.Files[key] = state
	want := "cp1: " + s.Directory() + " has owner etcd, wanted root\ncp1: " + key + " has owner etcd, wanted root"
	if got := driftOf(s, facts); got != want {
		t.Errorf("drift is\n%s\nwant\n%s", got, want)
	}
	if r := repairs(facts); r.Restart != "" || r.Issues || !strings.HasSuffix(string(r.Timers), "}\nmember_own\n") {
		t.Errorf("restart %q, new certificates %v, files given to root %v", r.Restart, r.Issues, r.Timers != "")
	}
	state.Owner, facts.Files[key] = "root", host.FileState{}
	facts.Files[key] = state
	for name, dir := range map[string]host.FileState{
		"root's": {Mode: fs.ModeDir | 0o700, Owner: "root"}, "a link": {Mode: fs.ModeSymlink | 0o777, Owner: "joe"},
	} {
		facts.Files[s.Directory()] = dir
		if r := repairs(facts); driftOf(s, facts) != "" || r.Needed() {
			t.Errorf("%s: drift %q, repair %+v", name, driftOf(s, facts), r)
		}
	}
}

// TestClearKeepsAccounts: a user that an administrator has created, as for a hardened kubeadm, stays when the member is
// removed.
func TestClearKeepsAccounts(t *testing.T) {
	_, script, _ := strings.Cut(string(clearScript()), "systemctl daemon-reload\n")
	for comment, want := range map[string]string{
		"terraform-provider-kube": "userdel etcd\ngroupdel etcd\n", "": "", "etcd user": "",
	} {
		const accounts = "getent() { [ \"$1\" != passwd ] || echo \"etcd:x:990:990:$comment:/nonexistent:/bin/false\"; }\n" +
			"userdel() { echo userdel \"$@\"; }\ngroupdel() { echo groupdel \"$@\"; }\n"
		run := exec.Command("sh", "-euc", accounts+script)
		run.Env = []string{"comment=" + comment, "PATH=/usr/bin:/bin"}
		if out, err := run.CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("%q: %s, %v; want %s", comment, out, err, want)
		}
	}
}

// TestOwnerOfRuntime: keys of the other runtime are kept. The start under the new runtime gives them to its user.
func TestOwnerOfRuntime(t *testing.T) {
	s := inheritedSpec(t)
	unit := s
	unit.Runtime, unit.Image = Systemd, ""
	facts := takenOver(t, s, inheritedFacts(t, s))
	facts.Output = ""
	delete(facts.Files, ManifestPath) // as LeaveRuntime leaves it
	delete(facts.Files, layout.PodPath)
	f := Interpret(s.Name, "10.0.0.11", s.Directory(), facts, nil)
	r, err := Repairs(unit, f, healthy(s), time.Now())
	if err != nil || r.Issues || r.Restart == "" {
		t.Errorf("new certificates %v, restart %q, %v", r.Issues, r.Restart, err)
	}
	dir := host.Dir{Path: s.Directory(), Mode: 0o700, Owner: layout.User, Group: layout.User}
	if !slices.Contains(r.Change.Dirs, dir) || len(r.Change.Users) != 1 {
		t.Errorf("a unit has the directories %v and the users %v", r.Change.Dirs, r.Change.Users)
	}
}

// TestMemberReturns: a member that has run as a unit gets the manifest of kubeadm back, if that says what the
// configuration does.
func TestMemberReturns(t *testing.T) {
	s := inheritedSpec(t)
	facts := takenOver(t, s, inheritedFacts(t, s))
	manifest := facts.Files[ManifestPath]
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
	left.Files[KeptManifest], left.Files[returnsPath] = manifest, host.FileState{}
	delete(left.Files, ManifestPath)
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
	begun.Files[ManifestPath], begun.Output = manifest, facts.Output
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

// TestInheritedUnhealthy: only a member that the cluster lists as healthy is taken over, and the reason names the
// certificates that have expired.
func TestInheritedUnhealthy(t *testing.T) {
	s, now := inheritedSpec(t), time.Now()
	sick := healthy(s)
	sick.Members[0].Healthy = false
	recorded := takenOver(t, s, inheritedFacts(t, s))
	for name, c := range map[string]struct {
		facts host.Facts
		v     *membership.View
		at    time.Time
		want  []string
	}{
		"healthy":        {inheritedFacts(t, s), healthy(s), now, nil},
		"taken over":     {recorded, sick, now, nil},
		"unhealthy":      {inheritedFacts(t, s), sick, now, []string{"does not list"}},
		"nobody answers": {inheritedFacts(t, s), nil, now, []string{"does not list"}},
		"expired": {
			inheritedFacts(t, s), nil, now.AddDate(2, 0, 0), []string{"does not list", "etcd/server", "etcd/peer", "expired"},
		},
	} {
		got := Interpret(s.Name, "10.0.0.11", s.Directory(), c.facts, nil).UnhealthyInherited(s, c.v, c.at)
		if (got == "") != (c.want == nil) {
			t.Errorf("%s: %q", name, got)
		}
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
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
		if _, err := ReadImported(s.Host, edited(changed, ManifestPath, c.before, c.after)); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestInheritedListeners: a member of kubeadm that does not listen where the provider needs it is imported and taken
// over as it is, and listens there too after its next restart.
func TestInheritedListeners(t *testing.T) {
	for name, c := range map[string]struct {
		address, before, after string
		added                  string
		otherwise              string // another value of the same flag, which is a difference
	}{
		"metrics": {
			"10.0.0.11", "--listen-metrics-urls=http://127.0.0.1:2381", "--listen-metrics-urls=http://10.0.0.11:2381",
			"--listen-metrics-urls=http://10.0.0.11:2381,http://127.0.0.1:2381",
			"--listen-metrics-urls=http://10.0.0.12:2381",
		},
		"IPv6": {
			"fd00::11", "--listen-client-urls=https://127.0.0.1:2379,https://[fd00::11]:2379",
			"--listen-client-urls=https://[::1]:2379,https://[fd00::11]:2379",
			"--listen-client-urls=https://127.0.0.1:2379,https://[::1]:2379,https://[fd00::11]:2379",
			"--listen-client-urls=https://[::1]:2379",
		},
	} {
		s := inheritedSpec(t)
		s.Host = specAt(t, c.address).Host
		facts := inheritedFacts(t, s)
		text := strings.NewReplacer("10.0.0.11", urlHost(c.address)).Replace(facts.Files[ManifestPath].Content)
		facts.Files[ManifestPath] = host.FileState{Content: text, SHA256: Digest([]byte(text)), Mode: 0o600}
		facts.Files[ClusterCAPath] = host.FileState{Content: s.Bundle.Anchors(pki.Kubernetes)}
		facts = edited(facts, ManifestPath, c.before, c.after)
		got, err := ReadImported(s.Host, facts)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !slices.Contains(got.Added, c.added) || len(got.Added) != 4 {
			t.Errorf("%s: the next restart adds %q", name, got.Added)
		}
		s.ExtraArgs = got.ExtraArgs
		if words := s.differencesOf(facts.Files[ManifestPath]); len(words) > 0 {
			t.Errorf("%s: a restart is due: %q", name, words)
		}
		if !strings.Contains(string(s.pod().Manifest()), c.added+"\n") {
			t.Errorf("%s: the manifest of the provider is\n%s", name, s.pod().Manifest())
		}
		facts = edited(facts, ManifestPath, c.after, c.otherwise)
		if words := s.differencesOf(facts.Files[ManifestPath]); len(words) != 1 {
			t.Errorf("%s: after an edit by hand the differences are %q", name, words)
		}
	}
}

// urlHost returns an address as it is in a URL.
func urlHost(address string) string {
	if strings.Contains(address, ":") {
		return "[" + address + "]"
	}
	return address
}

// TestImportInheritedDomainNames: kubeadm names members after nodes, which may have a domain.
func TestImportInheritedDomainNames(t *testing.T) {
	s := inheritedSpec(t)
	facts := edited(inheritedFacts(t, s), ManifestPath, "--name=cp1", "--name=cp1.example.com")
	facts.Files[ClusterCAPath] = host.FileState{Content: s.Bundle.Anchors(pki.Kubernetes)}
	facts.Output += `{"members":[{"name":"cp1.example.com","peerURLs":["https://10.0.0.11:2380"]},` +
		`{"name":"ip-10-0-0-12.ec2.internal","peerURLs":["https://10.0.0.12:2380"]}]}`
	got, err := ReadImported(s.Host, facts)
	want := map[string]string{"cp1.example.com": "10.0.0.11", "ip-10-0-0-12.ec2.internal": "10.0.0.12"}
	if err != nil || got.Name != "cp1.example.com" || !maps.Equal(got.Peers, want) {
		t.Errorf("imported as %q with %v, %v", got.Name, got.Peers, err)
	}
	if peers := initialPeers("cp1.example.com=https://10.0.0.11:2380"); peers["cp1.example.com"] != "10.0.0.11" {
		t.Errorf("--initial-cluster is read as %v", peers)
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

// TestResumesInheritedManifest: a member that was not stopped, as by a pause that was cut off, goes on with the
// manifest that it has.
func TestResumesInheritedManifest(t *testing.T) {
	kubeadm, err := os.ReadFile(filepath.Join("..", "..", "staticpod", "testdata", "kubeadm", "etcd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	own := podSpec(t).pod().Manifest()
	for name, placed := range map[string][]byte{"kubeadm's": kubeadm, "the provider's": own} {
		dir := t.TempDir()
		for file, text := range map[string][]byte{"manifests/etcd.yaml": placed, "definition": own} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		script := runtimeFunctions() + "pod_manifests=" + host.Words(dir+"/manifests") + "\nmember_unit_file=" +
			host.Words(dir+"/unit") + "\nmember_definition=" + host.Words(dir+"/definition") + "\nmember_inherited=" +
			host.Words(dir+"/inherited") + "\nmember_own() { :; }\nmember_guard() { :; }\npod_kubelet_recover() { :; }\n" +
			"pod_stop() { echo stop; rm -f -- \"$pod_manifests/$1.yaml\"; }\nmember_resume\n"
		out, err := exec.Command("sh", "-euc", string(script)).CombinedOutput()
		if err != nil || string(out) != "stop\n" {
			t.Errorf("%s: %v: %s", name, err, out)
		}
		if now, err := os.ReadFile(dir + "/manifests/etcd.yaml"); err != nil || string(now) != string(placed) {
			t.Errorf("%s: it goes on with another manifest, %v\n%s", name, err, now)
		}
	}
}

// TestMemberOwn runs the script that gives data and keys to the user of what runs the member.
func TestMemberOwn(t *testing.T) {
	dir := t.TempDir()
	data, key := dir+"/data", dir+"/server.key"
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	definition := "    - --data-dir=" + data + "\n"
	for _, file := range []string{data + "/db", key, dir + "/unit", dir + "/definition"} {
		if err := os.WriteFile(file, []byte(definition), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(owner string) string {
		t.Helper()
		// No test may change owners: the commands are only shown.
		script := runtimeFunctions() + "pod_manifests=" + host.Words(dir) + "\nmember_unit_file=" + host.Words(dir+"/unit") +
			"\nmember_definition=" + host.Words(dir+"/definition") + "\nmember_keys=" + host.Words(key) + "\n" +
			"find() { echo " + host.Words(owner) + "; }\nchown() { echo \"$@\"; }\nmember_own\n"
		out, err := exec.Command("sh", "-euc", string(script)).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	if got := run("other"); got != "etcd:etcd -- "+data+"/\n-RhP etcd:etcd -- "+data+"/db\n-h etcd:etcd -- "+key+"\n" {
		t.Errorf("a unit: %q", got)
	}
	if err := os.Remove(dir + "/unit"); err != nil {
		t.Fatal(err)
	}
	if got := run("other"); got != "root:root -- "+data+"/\n-RhP root:root -- "+data+"/db\n-h root:root -- "+key+"\n" {
		t.Errorf("a pod: %q", got)
	}
	if got := run(""); got != "-h root:root -- "+key+"\n" {
		t.Errorf("data of the user: %q", got)
	}
	for _, start := range []host.Script{"member_start\n", "member_return\n"} {
		script := runtimeFunctions() + "member_is_pod() { true; }\nmember_own() { echo own; }\n" +
			"member_guard() { echo guard; }\npod_place() { echo placed; }\nmember_inherited=" + host.Words(dir) + "\n" + start
		out, err := exec.Command("sh", "-euc", string(script)).CombinedOutput()
		if err != nil || string(out) != "own\nguard\nplaced\n" {
			t.Errorf("%s: %s, %v", start, out, err)
		}
	}
}

// TestMemberOwnsNoArchive: archives inside the data directory, and what belongs to the file system, stay root's.
func TestMemberOwnsNoArchive(t *testing.T) {
	d := newDisk(t)
	d.write("archive/cp1-20260101T000000Z/member/snap/db", "archive/cp2.part/"+LastSnapshot)
	dir := filepath.Dir(d.data)
	if err := os.WriteFile(dir+"/unit", []byte("--data-dir="+d.data+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(d.data+"/archive", d.data+"/link"); err != nil {
		t.Fatal(err)
	}
	own := runtimeFunctions() + "member_unit_file=" + host.Words(dir+"/unit") + "\nmember_user=daemon member_keys=''\n" +
		"member_own\n"
	for _, script := range []host.Script{own, "chown() { echo changed; }\n" + own} { // the second time, nothing is to do
		if out, err := exec.Command("sh", "-euc", string(script)).CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("%v: %s", err, out)
		}
	}
	out, err := exec.Command("find", d.data, "-printf", "%u %P\n").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		owner, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		top, _, _ := strings.Cut(name, "/")
		want := "daemon"
		if top == "archive" || top == "lost+found" {
			want = "root"
		}
		if owner != want && owner != "and" { // a name with a line break
			t.Errorf("%s belongs to %s, want %s", name, owner, want)
		}
	}
}

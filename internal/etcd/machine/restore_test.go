package machine

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/etcdtest"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

const report = "token prod-0011\nsize 20512\nsaved 1700000000\nrevision 41\nbump 1000000000\nkeys 3\nca \n"

func TestReadStaged(t *testing.T) {
	value := base64.StdEncoding.EncodeToString([]byte("k8s:enc:x"))
	got, err := ReadStaged(report + "head " + value + "\nsample " + value + "\nunencrypted secrets\nsecrets 3 2\n")
	if err != nil {
		t.Fatal(err)
	}
	if got.Token != "prod-0011" || got.Size != 20512 || !got.Saved.Equal(time.Unix(1700000000, 0)) || got.Revision != 41 ||
		got.Bump != 1000000000 || got.Keys != 3 || len(got.CA) != 0 || string(got.Heads[0]) != "k8s:enc:x" ||
		string(got.Samples[0]) != "k8s:enc:x" || !slices.Equal(got.Unencrypted, []string{"secrets"}) ||
		got.Secrets != 3 || got.Sealed != 2 {
		t.Errorf("read %+v", got)
	}
	if got.Reused {
		t.Error("it was staged before")
	}
	if got, err = ReadStaged(report + "reused yes\n"); err != nil || !got.Reused {
		t.Errorf("read %+v, %v", got, err)
	}
	s := specAt(t, "10.0.0.11")
	if got.ID(s) != (Staged{Token: got.Token, Peer: s.PeerURL()}).ID(s) {
		t.Error("without a peer URL, the data is not that of the member")
	}
	for _, peer := range []string{"https://10.0.0.9:2380", "https://[fd00::9]:2380"} {
		at, err := ReadStaged(report + "peer " + peer + "\n")
		if err != nil || at.Peer != peer || at.ID(s).Member != membership.StaticMemberID(peer, "prod-0011") ||
			at.ID(s).Cluster != membership.StaticClusterID([]string{peer}, "prod-0011") {
			t.Errorf("read %+v, %v", at, err)
		}
	}
	for _, line := range strings.SplitAfter(report, "\n")[:6] {
		if _, err := ReadStaged(strings.ReplaceAll(report, line, "")); err == nil {
			t.Errorf("a report without %q is accepted", line)
		}
	}
	for old, bad := range map[string]string{
		"keys 3\n": "keys 3\nsecrets 1\n",
		"ca \n":    "peer https://10.0.0.9:2380/x\n", "keys 3": "keys 3\npeer https://cp1:2380",
		"revision":  "peer\nrevision",
		"token":     "peer http://10.0.0.9:2380\ntoken",
		"prod-0011": "a b;c", "41": "-1", "20512": "many", "ca ": "ca %%%", "bump": "secrets 1 2\nbump", "1000000000": "0x10",
	} {
		if _, err := ReadStaged(strings.Replace(report, old, bad, 1)); err == nil {
			t.Errorf("%q is accepted for %q", bad, old)
		}
	}
}

// TestRestoredRecord follows the record of a member through a restore, and when the restore
// is no longer in the configuration.
func TestRestoredRecord(t *testing.T) {
	s := specAt(t, "10.0.0.11")
	id := ID{Member: 1, Cluster: 2}
	read := func(content []byte) *Record {
		t.Helper()
		m, err := ReadRecord(string(content))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	s.Restore = &Restore{ID: "one", Snapshot: "/s.db", Bump: BumpAutomatically}
	place := PlaceChange(s, id)
	if m := read(place.Files[0].Content); len(place.Files) != 1 || m.Restoring != "one" || m.Restored != "" {
		t.Errorf("placed with %+v", m)
	}
	if len(place.Links) > 0 {
		t.Errorf("the unit is enabled before its data is there: %+v", place.Links)
	}
	start, _ := StartRestoredChange(s, Observed{}, Issued{}, id)
	for _, file := range start.Files {
		if file.Path == layout.EnvPath {
			t.Error("a member with restored data has a bootstrap.env, with which it would start without that data")
		}
	}
	if m := read(start.Files[len(start.Files)-1].Content); m.Restoring != "one" || m.Restored != "" {
		t.Errorf("started with %+v", m)
	}
	done := read(RestoredChange(s, id, nil).Files[0].Content)
	if done.Restoring != "" || done.Restored != "one" {
		t.Errorf("completed with %+v", done)
	}
	s.Restore.Silent = map[string]string{"10.0.0.12": "cp2"}
	placed := Observed{Record: read(PlaceChange(s, id).Files[0].Content)}
	s.Restore = &Restore{ID: "one", Snapshot: "/s.db", Bump: BumpAutomatically} // of the next process
	silent := read(RestoredChange(s.KeepRestored(placed), id, nil).Files[0].Content)
	if placed.Record.Silent["10.0.0.12"] != "cp2" || silent.Silent["10.0.0.12"] != "cp2" || s.Restore.Silent != nil {
		t.Errorf("placed with %+v, completed with %+v", placed.Record, silent)
	}
	if later := (Observed{Record: silent}).recordFile(s, id, nil); read(later.Content).Silent["10.0.0.12"] != "cp2" {
		t.Error("a later change forgets who was silent")
	}
	f := Observed{Record: done}
	if f.RestoreDue(s) || !(Observed{Record: read(place.Files[0].Content)}).RestoreDue(s) {
		t.Error("only a restore that is not complete is due")
	}
	s.Restore = nil
	if later := (Observed{Record: silent}).recordFile(s, id, nil); read(later.Content).Silent["10.0.0.12"] != "cp2" {
		t.Error("who was silent is forgotten with the configuration")
	}
	if f.RestoreDue(s) || !done.recordFitsRestore(s) || s.KeepRestored(f).RestoreID() != "one" {
		t.Error("a restore that is no longer configured is forgotten")
	}
	s.Restore = &Restore{ID: "two", Member: "cp1"}
	if !f.RestoreDue(s) || done.recordFitsRestore(s) {
		t.Error("another restore is not due")
	}
}

// recorder is a machine that only writes down the last command.
type recorder struct {
	Machine
	last host.Command
}

func (r *recorder) Run(_ context.Context, c host.Command) (string, error) {
	r.last = c
	return report, nil
}

// TestStageEnvironment: a snapshot in the bucket is fetched with the variables of its upload, which may name a proxy.
// Fetch commands have those of the restore.
func TestStageEnvironment(t *testing.T) {
	s := scheduledAt(t)
	s.Snapshots.Upload, s.Snapshots.S3 = "", &snapshot.S3{}
	for want, r := range map[string]Restore{
		s.Snapshots.EnvironmentFile: {ID: "one", Bucket: NewestInBucket},
		"/root/restore.env":         {ID: "one", Fetch: "true", EnvironmentFile: "/root/restore.env"},
		"":                          {ID: "one", Fetch: "true"},
	} {
		s.Restore = &r
		var m recorder
		if _, err := Stage(t.Context(), &m, s, "prod-0011", nil); err != nil {
			t.Fatal(err)
		}
		if got := m.last.Vars["environment"]; got != want {
			t.Errorf("%s: the environment is %q, want %q", r.Source(), got, want)
		}
	}
}

// TestStagedLeftovers: what a restore that was given up has staged beside the data of a member is drift, which a repair
// and a removal undo. It stays while it may be the last data.
func TestStagedLeftovers(t *testing.T) {
	s := specAt(t, "10.0.0.11")
	s.Bundle = etcdtest.Bundle(t)
	data := s.Directory()
	root := layout.ArchiveRoot(data)
	facts := host.Facts{Dirs: map[string][]string{
		data: {"member"}, root: {"cp1-20260102T030405Z", "restoring.part"},
	}}
	observe := func(facts host.Facts) Observed { return Interpret("cp1", "10.0.0.11", data, facts, nil) }
	entry := &membership.Member{}
	repaired := func(facts host.Facts) string {
		t.Helper()
		r, err := Repairs(s, observe(facts), nil, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return string(r.Timers)
	}
	if drift := memberDrift(s, observe(facts), entry); !slices.Equal(drift,
		[]string{root + "/restoring.part is left of a restore that was not completed"}) {
		t.Errorf("the drift is %q", drift)
	}
	if drift := Drift(s, observe(facts), nil, time.Now()); strings.Contains(strings.Join(drift, "\n"), "restoring") {
		t.Errorf("while no member answers, and a restore may make its data, the drift is %q", drift)
	}
	if !strings.Contains(repaired(facts), string(dropAllScript)) {
		t.Error("a repair leaves it")
	}
	if script := s.ArchiveAction(Clear, false).script(); !strings.Contains(string(script), string(dropAllScript)) {
		t.Error("a removal leaves it")
	}
	facts.Dirs = map[string][]string{data: {"member"}, root: {"cp1-20260102T030405Z", "scheduled"}}
	if f := observe(facts); f.Leftovers != "" || strings.Contains(repaired(facts), string(dropAllScript)) {
		t.Errorf("archives are taken for %s", f.Leftovers)
	}
	for at, names := range map[string][]string{
		root: {"restoring"}, layout.ArchiveInside(data): {"restoring.received", "restoring.received.part"},
	} {
		f := observe(host.Facts{Dirs: map[string][]string{at: names}})
		if f.Leftovers != at+"/"+names[0] || f.Staged != "" {
			t.Errorf("%q in %s are %q, and data %q", names, at, f.Leftovers, f.Staged)
		}
		if drift := memberDrift(s, f, entry); len(drift) > 0 || strings.Contains(repaired(f.Facts), string(dropAllScript)) {
			t.Errorf("without a member's data, it is removed, and the drift is %q", drift)
		}
		c, timers := NewMemberChange(s, f, Issued{}, ID{}, "")
		if !strings.Contains(string(timers), string(dropAllScript)) || f.After(s, c).Leftovers != "" {
			t.Error("a new member leaves it")
		}
	}

	root = t.TempDir()
	for _, dir := range []string{
		"etcd-archive/restoring/member", "etcd-archive/restoring.former/member", "etcd-archive/restoring.part",
		"etcd-archive/cp1-20260102T030405Z/member", "etcd/archive/restoring/member", "etcd/member",
	} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	dropped := dropStaged(filepath.Join(root, "etcd"))
	if out, err := exec.CommandContext(t.Context(), "sh", "-euc", string(dropped)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), "find", root, "-mindepth", "2", "-printf", "%P\n").Output()
	if got := strings.Join(slices.Sorted(slices.Values(strings.Fields(string(out)))), " "); err != nil ||
		got != "etcd-archive/cp1-20260102T030405Z etcd-archive/cp1-20260102T030405Z/member etcd/member" {
		t.Errorf("after that, there are %s, %v", got, err)
	}
}

// TestNewestQuestion: the snapshots of a member are beside its data directory, also if that is a mount point, and
// the last one of a destroyed member is in its archive, on the disk of the data.
func TestNewestQuestion(t *testing.T) {
	data := filepath.Join(t.TempDir(), "etcd")
	newest := func() string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "sh", "-euc",
			string(host.Assignments(newestVars(data))+newestQuestion)).Output()
		if err != nil {
			t.Fatal(err)
		}
		got, err := archivedSnapshotIn(string(out))
		if err != nil || got == nil {
			t.Fatalf("read %q, %v", out, err)
		}
		return strings.TrimPrefix(got.Path, data)
	}
	for i, name := range []string{
		"-archive/scheduled/a.db", "-archive/requested/b.db", "/archive/cp1-20260102T030405Z/snapshot.db",
		"-archive/upgrades/c.db", "-archive/cp1-20260102T030405Z/snapshot.db",
	} {
		at := time.Unix(1700000000+int64(i), 0)
		err := errors.Join(os.MkdirAll(filepath.Dir(data+name), 0o700), os.WriteFile(data+name, nil, 0o600),
			os.Chtimes(data+name, at, at))
		if err != nil {
			t.Fatal(err)
		}
		if got := newest(); got != name {
			t.Errorf("the newest is %s, want %s", got, name)
		}
	}
	for name, ahead := range map[string]time.Duration{
		"-archive/cp1-20260102T030405Z/snapshot.db": time.Hour, // a clock was wrong
		"-archive/scheduled/a.db":                   5 * time.Minute,
	} {
		if err := os.Chtimes(data+name, time.Time{}, time.Now().Add(ahead)); err != nil {
			t.Fatal(err)
		}
	}
	if got := newest(); got != "-archive/scheduled/a.db" {
		t.Errorf("the newest is %s, which is of a time that is yet to come", got)
	}
}

func TestArchivedSnapshot(t *testing.T) {
	if snapshot, err := archivedSnapshotIn("\n"); snapshot != nil || err != nil {
		t.Errorf("nothing is %+v, %v", snapshot, err)
	}
	snapshot, err := archivedSnapshotIn("1700000000 /var/lib/etcd-archive/upgrades/a-1.db\n")
	if err != nil || snapshot.Path != "/var/lib/etcd-archive/upgrades/a-1.db" || snapshot.Saved.Unix() != 1700000000 {
		t.Errorf("snapshot %+v, %v", snapshot, err)
	}
	for _, bad := range []string{"1700000000", "x /a.db", "1 a.db", "1 /a b.db", "1 /a$(id).db", "1 /a.db\n2 /b.db"} {
		if snapshot, err := archivedSnapshotIn(bad); err == nil {
			t.Errorf("%q is %+v", bad, snapshot)
		}
	}
}

// TestRestoreKey: what was staged from one source is not used for another one.
func TestRestoreKey(t *testing.T) {
	keys := map[string]bool{}
	all := []Restore{
		{ID: "a", Snapshot: "/x"},
		{ID: "b", Snapshot: "/x"},
		{ID: "a", Snapshot: "/y"},
		{ID: "a", File: "/x"},
		{ID: "a", Member: "x"},
		{ID: "a", Bucket: "/x"},
		{ID: "a", Fetch: "/x"},
		{ID: "a", Fetch: "/x", EnvironmentFile: "/e"},
		{ID: "a", Snapshot: "/x", Bump: 5},
	}
	for _, r := range all {
		keys[r.key()] = true
	}
	if len(keys) != len(all) {
		t.Errorf("%d keys for %d restores", len(keys), len(all))
	}
}

// TestRestoreKeyWithoutContent: what was staged from a file is used on a computer that does not have the file.
func TestRestoreKeyWithoutContent(t *testing.T) {
	file := Restore{ID: "a", File: "/x", FileID: "32-ff"}
	absent := Restore{ID: "a", File: "/x", FileID: AnyContent}
	unreadable := Restore{ID: "a", File: "/x"}
	if file.source() != absent.key() || absent.source() != absent.key() {
		t.Error("without the file, its data is not used")
	}
	if file.key() == absent.key() || unreadable.key() == absent.key() || unreadable.key() == file.key() {
		t.Error("another content has the same key")
	}
	for _, r := range []Restore{{ID: "a", Member: "x"}, {ID: "a", Snapshot: "/x"}, {ID: "a", Fetch: "true"}} {
		if r.source() != r.key() {
			t.Errorf("%s has no file", r.Source())
		}
	}
}

func TestValidateRestoreID(t *testing.T) {
	for _, id := range []string{"1", "2026-11-24", "2026-11-24T20:00:00Z", "Before_the.upgrade"} {
		if err := ValidateRestoreID(id); err != nil {
			t.Error(err)
		}
	}
	for _, id := range []string{"", " ", "-a", "a b", "a\nb", `a"b`, strings.Repeat("a", 65)} {
		if ValidateRestoreID(id) == nil {
			t.Errorf("%q is accepted", id)
		}
	}
}

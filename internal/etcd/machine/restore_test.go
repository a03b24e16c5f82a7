package machine

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
)

const report = "token prod-0011\nsize 20512\nsaved 1700000000\nrevision 41\nbump 1000000000\nkeys 3\nca \n"

func TestReadStaged(t *testing.T) {
	value := base64.StdEncoding.EncodeToString([]byte("k8s:enc:x"))
	got, err := ReadStaged(report + "head " + value + "\nsample " + value + "\n")
	if err != nil {
		t.Fatal(err)
	}
	if got.Token != "prod-0011" || got.Size != 20512 || !got.Saved.Equal(time.Unix(1700000000, 0)) || got.Revision != 41 ||
		got.Bump != 1000000000 || got.Keys != 3 || len(got.CA) != 0 || string(got.Heads[0]) != "k8s:enc:x" ||
		string(got.Samples[0]) != "k8s:enc:x" {
		t.Errorf("read %+v", got)
	}
	if got.Reused {
		t.Error("it was staged before")
	}
	if got, err = ReadStaged(report + "reused yes\n"); err != nil || !got.Reused {
		t.Errorf("read %+v, %v", got, err)
	}
	for _, line := range strings.SplitAfter(report, "\n")[:6] {
		if _, err := ReadStaged(strings.ReplaceAll(report, line, "")); err == nil {
			t.Errorf("a report without %q is accepted", line)
		}
	}
	for old, bad := range map[string]string{
		"prod-0011": "a b;c", "41": "-1", "20512": "many", "ca ": "ca %%%", "1000000000": "0x10",
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

package etcd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/etcdtest"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

func TestSaveSnapshot(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp1", "cp2", "cp3")
	f.calm(specs["cp1"])
	hosts := map[string]*host.Host{}
	for _, s := range specs {
		hosts[s.Host.Address()] = s.Host
	}
	f.machine("cp1").lost = true // the next one is used
	got, err := f.clusters.SaveSnapshot(f.context(), hosts, f.bundle, "before-kubernetes-1.35.4")
	if err != nil || !strings.HasPrefix(got.Host, "cp2") || !strings.HasSuffix(got.Path, "-before-kubernetes-1.35.4.db") || filepath.Dir(got.Path) != snapshot.UpgradesDir(layout.DefaultDataDir) {
		t.Fatalf("saved %s, %v", got, err)
	}
	if info, err := os.Stat(f.machine("cp2").at(got.Path)); err != nil || info.Size() != got.Size {
		t.Errorf("%v, %v", info, err)
	}
	for _, label := range []string{"", "../x", "a b", "A"} {
		if _, err := f.clusters.SaveSnapshot(f.context(), hosts, f.bundle, label); err == nil {
			t.Errorf("label %q was taken", label)
		}
	}
	m := f.machine("cp2")
	m.free = 1 << 20
	f.machine("cp3").free = 1 << 20
	_, err = f.clusters.SaveSnapshot(f.context(), hosts, f.bundle, "full")
	etcdtest.WantError(t, "full machines", err, "1 MiB are free")
}

// TestSnapshotsKept verifies that a changed number is reported as drift, and rewrites the
// record only.
func TestSnapshotsKept(t *testing.T) {
	s := specAt(t, "10.0.0.1")
	s.Bundle, s.Name = etcdtest.Bundle(t), "cp1"
	f := memberOn(t, s)
	for kept, want := range map[int]string{0: "", snapshot.DefaultKept: "", 5: "cp1: " + layout.RecordPath + " records that 3 upgrade snapshots are kept, wanted 5"} {
		s.SnapshotsKept = kept
		if words := strings.Join(drift(s, f, nil, time.Now()), "\n"); words != want {
			t.Errorf("%d kept: %q", kept, words)
		}
		r, err := repairs(s, f, nil, time.Now())
		if err != nil || r.Restart != "" || (len(r.Change.Files) == 1) != (want != "") {
			t.Errorf("%d kept: %+v, %v", kept, r, err)
		}
		if want != "" && (r.Change.Files[0].Path != layout.RecordPath || !strings.Contains(string(r.Change.Files[0].Content), `"snapshots_kept": 5`)) {
			t.Errorf("repaired by %+v", r.Change.Files)
		}
	}
	s.SnapshotsKept = 0
	f.Record.SnapshotsKept = 0 // written before the field existed
	if words := drift(s, f, nil, time.Now()); len(words) > 0 {
		t.Errorf("an older marker: %v", words)
	}
}

// TestRenamedCluster verifies that another name of the cluster rewrites the record and
// restarts nothing.
func TestRenamedCluster(t *testing.T) {
	s := specAt(t, "10.0.0.1")
	s.Bundle, s.Name = etcdtest.Bundle(t), "cp1"
	f := memberOn(t, s)
	renamed := *s.Bundle
	renamed.ClusterName, s.Bundle = "renamed", &renamed
	r, err := repairs(s, f, nil, time.Now())
	if err != nil || r.Restart != "" || len(r.Change.Files) != 1 || !strings.Contains(string(r.Change.Files[0].Content), `"cluster_name": "renamed"`) {
		t.Errorf("%+v, %v", r, err)
	}
	if words := drift(s, f, nil, time.Now()); len(words) > 0 {
		t.Errorf("drift: %q", words)
	}
}

package etcd

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/etcdtest"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
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
	if err != nil || !strings.HasPrefix(got.Host, "cp2") || !strings.HasSuffix(got.Path, "-before-kubernetes-1.35.4.db") ||
		filepath.Dir(got.Path) != snapshot.UpgradesDir(layout.DefaultDataDir) {
		t.Fatalf("saved %s, %v", got, err)
	}
	if info, err := os.Stat(f.machine("cp2").at(got.Path)); err != nil || info.Size() != got.Size {
		t.Errorf("%v, %v", info, err)
	}
	f.machine("cp1").lost, f.machine("cp1").hangs = false, true
	f.clusters = f.coordinator()
	f.clusters.pace.Answer = 200 * time.Millisecond
	ctx, cancel := context.WithTimeout(f.context(), time.Minute)
	defer cancel()
	got, err = f.clusters.SaveSnapshot(ctx, hosts, f.bundle, "hangs")
	if err != nil || !strings.HasPrefix(got.Host, "cp2") || ctx.Err() != nil {
		t.Errorf("while a machine hangs: saved %s, %v", got, err)
	}
	f.machine("cp1").hangs, f.machine("cp1").lost = false, true
	for _, label := range []string{"", "../x", "a b", "A"} {
		if _, err := f.clusters.SaveSnapshot(f.context(), hosts, f.bundle, label); err == nil {
			t.Errorf("label %q was taken", label)
		}
	}
	m := f.machine("cp2")
	m.free = 1 << 20
	f.machine("cp3").free = 1 << 20
	_, err = f.clusters.SaveSnapshot(f.context(), hosts, f.bundle, "full")
	etcdtest.WantError(t, "full machines", err, "not enough space")
}

// TestCreateWithSnapshots verifies that a member is created with its timer, that a member
// without one has none of an earlier member, and that a destroyed member leaves none.
func TestCreateWithSnapshots(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1")
	s := specs["cp1"]
	s.Snapshots = &snapshot.Settings{Schedule: "hourly", Kept: 1, Upload: "true"}
	specs["cp1"] = s
	f.create(specs, "cp1")
	if m := f.machine("cp1"); !m.timer || string(m.files[snapshot.UploadPath].Content) != "true" {
		t.Errorf("the timer runs: %v", m.timer)
	}
	status, err := f.clusters.Read(f.context(), s)
	if err != nil || len(status.Drift) > 0 || status.ConfigDigest != machine.WantedDigest(s.Spec) {
		t.Errorf("read as %+v, %v", status, err)
	}
	starts := f.machine("cp1").starts
	s.Snapshots = nil
	status, err = f.clusters.Update(f.context(), s)
	if m := f.machine("cp1"); err != nil || len(status.Drift) > 0 || m.timer || m.starts != starts ||
		len(m.files[snapshot.TimerPath].Content) > 0 {
		t.Errorf("without: %v, %v, the timer runs: %v, %d starts", err, status.Drift, m.timer, m.starts-starts)
	}
	if err := f.clusters.Delete(f.context(), s, DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.machine("cp1").wantClean()
}

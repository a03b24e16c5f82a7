package etcd

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/etcdtest"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// outageLog records in which order members were announced, and how many at once.
type outageLog struct {
	mu    sync.Mutex
	now   int
	most  int
	order []string
}

// announced is the outage of one member in a log.
type announced struct {
	log  *outageLog
	name string
}

func (a announced) Begins(context.Context) error {
	a.log.mu.Lock()
	defer a.log.mu.Unlock()
	a.log.now++
	a.log.most = max(a.log.most, a.log.now)
	a.log.order = append(a.log.order, a.name)
	return nil
}

func (a announced) Ended(context.Context) error {
	a.log.mu.Lock()
	defer a.log.mu.Unlock()
	a.log.now--
	return nil
}

// loosen writes data and drops it, so that the databases consist of free pages.
func (f *fleet) loosen(specs map[string]Spec) map[string]string {
	f.t.Helper()
	c := f.client(specs["cp1"])
	last := map[string]string{}
	for i := range 60 {
		key, value := fmt.Sprint("key", i%3), fmt.Sprintf("%064d", i)+strings.Repeat("x", 1<<16)
		if err := c.put("cp1", key, value); err != nil {
			f.t.Fatal(err)
		}
		last[key] = value
	}
	if _, err := c.clients.Compact(f.context(), f.address("cp1")); err != nil {
		f.t.Fatal(err)
	}
	for i := range 5 { // bbolt gives the pages back at the second commit after it
		if err := c.put("cp1", "after", fmt.Sprint(i)); err != nil {
			f.t.Fatal(err)
		}
	}
	return last
}

func TestDefragmentOnRequest(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.three(0)
	last := f.loosen(specs)
	log := &outageLog{}
	for name, s := range specs {
		s.Outage = announced{log, name}
		specs[name] = s
	}
	leader := leaderOf(f.calm(specs["cp1"]))
	var mu sync.Mutex
	results := map[string]Defragmented{}
	errs := together(t, specs, func(s Spec) error {
		got, err := f.clusters.Defragment(f.context(), s, membership.Defragmentation{MinFree: 10, Force: true})
		mu.Lock()
		defer mu.Unlock()
		results[s.Name] = got
		return err
	}, "cp1", "cp2", "cp3")
	for name, err := range errs {
		if got := results[name]; err != nil || !got.Done || got.After >= got.Before {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		f.client(specs[name]).wantKeys(name, last)
	}
	if len(log.order) != 3 || log.order[2] != leader || log.most != 1 || log.now != 0 {
		t.Errorf("announced %v, %d at once, %d left; %s was the leader", log.order, log.most, log.now, leader)
	}
	f.wantStarts(1)

	log.order = nil
	got, err := f.clusters.Defragment(f.context(), specs["cp1"], membership.Defragmentation{MinFree: 90})
	if err != nil || got.Done || len(log.order) > 0 {
		t.Errorf("below the limit: %+v, %v, announced %v", got, err, log.order)
	}
	f.kill("cp3", false)
	_, err = f.clusters.Defragment(f.context(), specs["cp1"], membership.Defragmentation{Force: true})
	etcdtest.WantError(t, "beside a dead member", err, "etcd member not defragmented")
	if !problem.Untouched(err) || len(log.order) > 0 {
		t.Errorf("%v, announced %v", err, log.order)
	}
}

func TestMoveLeaderOnRequest(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.three(0)
	before := leaderOf(f.calm(specs["cp1"]))
	got, err := f.clusters.MoveLeader(f.context(), specs["cp1"], "")
	if after := leaderOf(f.calm(specs["cp1"])); err != nil || after == before || after != got {
		t.Errorf("moved from %s to %s, %s leads: %v", before, got, after, err)
	}
	for _, name := range []string{before, before} { // the second time, it leads already
		got, err = f.clusters.MoveLeader(f.context(), specs["cp1"], name)
		if after := leaderOf(f.calm(specs["cp1"])); err != nil || after != name || got != name {
			t.Errorf("moved to %s, %s leads: %v", got, after, err)
		}
	}
	_, err = f.clusters.MoveLeader(f.context(), specs["cp1"], "cp9")
	etcdtest.WantError(t, "unknown member", err, `member "cp9"`)
	dead := "cp1"
	if before == "cp1" {
		dead = "cp2"
	}
	f.kill(dead, false)
	_, err = f.clusters.MoveLeader(f.context(), specs[before], dead)
	etcdtest.WantError(t, "dead member", err, "leadership not moved")
	if after := leaderOf(f.view(specs[before])); after != before {
		t.Errorf("%s leads", after)
	}
}

func TestSaveNow(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1")
	f.create(specs, "cp1")
	hosts := map[string]*host.Host{"cp1": specs["cp1"].Host}
	got, err := f.clusters.SaveNow(f.context(), hosts, f.bundle, "before-migration")
	if err != nil || filepath.Dir(got.Path) != snapshot.RequestedDir(layout.DefaultDataDir) {
		t.Fatalf("saved %s, %v", got, err)
	}
	f.wantSaved("cp1", "before-migration")
}

// wantSaved checks the labels of the requested snapshots on a machine.
func (f *fleet) wantSaved(name string, labels ...string) {
	f.t.Helper()
	paths, _ := filepath.Glob(f.machine(name).at(snapshot.RequestedDir(layout.DefaultDataDir)) + "/*.db")
	var have []string
	for _, path := range paths {
		_, label, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), ".db"), "-")
		have = append(have, label)
	}
	slices.Sort(have)
	if slices.Sort(labels); !slices.Equal(have, labels) {
		f.t.Errorf("%s has the snapshots %v, want %v", name, have, labels)
	}
}

// TestSnapshotBetweenOneAndTwo: a cluster that grows from one voter, or shrinks to one, has a
// snapshot from before, and other changes of its size have none.
func TestSnapshotBetweenOneAndTwo(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.create(f.specs("cp1"), "cp1")
	f.wantSaved("cp1")
	f.create(f.specs("cp1", "cp2"), "cp2")
	f.wantSaved("cp1", growthLabel)
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp3")
	f.calm(specs["cp1"])
	if err := f.clusters.Delete(f.context(), specs["cp3"], DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.wantSaved("cp1", growthLabel)
	f.calm(specs["cp1"])

	f.machine("cp1").unsaved = fmt.Errorf("disk full")
	err := f.clusters.Delete(f.context(), specs["cp2"], DeleteOptions{})
	etcdtest.WantError(t, "without a snapshot", err, "disk full")
	if v := f.view(specs["cp1"]); !problem.Untouched(err) || len(v.Voters()) != 2 {
		t.Errorf("%v\n%s", err, v)
	}
	f.machine("cp1").unsaved = nil
	if err := f.clusters.Delete(f.context(), specs["cp2"], DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.wantSaved("cp1", growthLabel, shrinkageLabel)
}

package etcd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// TestAbandonedText: machines that a restore gives up and that have a quorum of the former cluster may serve it again.
func TestAbandonedText(t *testing.T) {
	for peers, want := range map[int]bool{3: true, 4: false, 5: false} {
		text := abandonedText([]string{"cp1 (10.0.0.1)", "cp2 (10.0.0.2)"}, peers)
		if !strings.Contains(text, "cp1 (10.0.0.1), cp2 (10.0.0.2). Their members never vote in the restored cluster") ||
			strings.Contains(text, "serve the former cluster") != want {
			t.Errorf("two of %d: %s", peers, text)
		}
	}
}

// TestFormerNext: which of two served clusters is the former one is known only by the record of the restored member.
func TestFormerNext(t *testing.T) {
	restored := ofCluster("cp3", "8")
	restored.Record.Restored = "one"
	restored.Record.Silent = map[string]string{blank("cp1").Address: "cp1", blank("cp2").Address: "cp2"}
	other, gone, changed := restored, restored, restored
	other.Record = &machine.Record{ClusterID: "other", EtcdCluster: "8", Silent: restored.Record.Silent}
	gone.Err = errDied
	changed.Record = &machine.Record{ClusterID: testCluster, EtcdCluster: "9", Silent: restored.Record.Silent}
	former := []machine.Observed{ofCluster("cp1", "7"), ofCluster("cp2", "7")}
	served := map[string]uint64{blank("cp1").Address: 7, blank("cp2").Address: 7, blank("cp3").Address: 8}
	joined := map[string]uint64{blank("cp1").Address: 7, blank("cp3").Address: 8, blank("cp4").Address: 8}
	for name, c := range map[string]struct {
		record machine.Observed
		ids    map[string]uint64
		want   string
	}{
		"both came back": {
			restored, served, "cluster 7 on " + blank("cp1").Address + ", " + blank("cp2").Address +
				" is the former one, which the restore one has given up: stop etcd",
		},
		"another one has joined": {restored, joined, "cluster 7 on " + blank("cp1").Address + " is the former one"},
		"one that was not given up serves another cluster": {
			restored, map[string]uint64{blank("cp1").Address: 7, blank("cp3").Address: 8, blank("cp4").Address: 7}, "",
		},
		"the restored member does not serve": {restored, map[string]uint64{blank("cp1").Address: 7}, ""},
		"its record is another cluster's":    {other, served, ""},
		"its record is an older one":         {changed, served, ""},
		"its machine was not reached":        {gone, served, ""},
		"nothing was restored":               {ofCluster("cp3", "8"), served, ""},
		"they serve one cluster":             {restored, map[string]uint64{blank("cp3").Address: 8}, ""},
	} {
		got := formerNext(testCluster, append(former, c.record), c.ids)
		if !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestRunningQuorum: members that had the time for an election may serve only if a quorum of them runs.
func TestRunningQuorum(t *testing.T) {
	moved := runs(ofCluster("cp3", "7")) // came with its volume from where the others list it
	moved.Record.MemberID, moved.Address = "3", blank("cp9").Address
	foreign, nameless, restored := runs(ofCluster("cp1", "7")), runs(blank("cp1")), runs(ofCluster("cp1", "8"))
	foreign.Record.ClusterID = "other"
	three := listing("cp1", "cp2", "cp3")
	learner := listing("cp1", "cp2")
	learner.Members[1].Learner = true
	for name, c := range map[string]struct {
		machines []machine.Observed
		lists    map[string]membership.View // by name
		want     string
	}{
		"nobody":                  {nil, nil, ""},
		"stopped":                 {[]machine.Observed{ofCluster("cp1", "7")}, nil, ""},
		"of another bundle":       {[]machine.Observed{foreign}, nil, ""},
		"of the restored cluster": {[]machine.Observed{restored}, nil, ""},
		"one that says nothing":   {[]machine.Observed{runs(ofCluster("cp1", "7"))}, nil, "does not say whom it knows"},
		"one without a record":    {[]machine.Observed{nameless}, nil, "does not say whom it knows"},
		"one that knows nobody":   {[]machine.Observed{nameless}, map[string]membership.View{"cp1": {}}, "does not say"},
		"one of three": {
			[]machine.Observed{runs(ofCluster("cp1", "7")), ofCluster("cp2", "7")}, map[string]membership.View{"cp1": three}, "",
		},
		"two of three": {
			[]machine.Observed{runs(ofCluster("cp1", "7")), runs(ofCluster("cp2", "7"))},
			map[string]membership.View{"cp1": three, "cp2": three},
			"3 voters, of which 2 run",
		},
		"two of three, one of them elsewhere": {
			[]machine.Observed{runs(ofCluster("cp1", "7")), moved},
			map[string]membership.View{"cp1": three, "cp9": three},
			"3 voters, of which 2 run",
		},
		"one voter and a learner": {
			[]machine.Observed{runs(ofCluster("cp1", "7"))},
			map[string]membership.View{"cp1": learner},
			"1 voters, of which 1 run",
		},
	} {
		seed := runs(serving(recorded("cp4", "", "one", true), "8"))
		lists := map[string]membership.View{}
		for name, list := range c.lists {
			lists[blank(name).Address] = list
		}
		in := restoreInput{ID: "one", Cluster: testCluster, Machines: append(c.machines, seed)}
		got := runningQuorum(runningFormer(in, seed), lists)
		if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestFormerClusterComesBack: two of three machines are given up in a restore, and come back with a quorum of the
// former cluster. No update is made, and its error names them.
func TestFormerClusterComesBack(t *testing.T) {
	testrun.Long(t)
	t.Parallel()
	f := newLostFleet(t)
	f.save("cp3")
	f.empty("cp3")
	f.kill("cp1", true)
	f.kill("cp2", true)
	f.request(machine.Restore{ID: "one", Snapshot: f.snapshot})
	s := f.specs["cp3"]
	s.Abandoned = host.AbandonedAt(f.address("cp1"), f.address("cp2"))
	plan, err := f.coordinator().PreviewRestore(f.context(), s)
	if err != nil || !strings.Contains(plan, "they serve the former cluster") {
		t.Errorf("the plan is %s, %v", plan, err)
	}
	if _, err := f.coordinator().Update(f.context(), s); err != nil {
		t.Fatal(err)
	}
	f.comeBack("cp1", "cp2")
	want := " on " + f.address("cp1") + ", " + f.address("cp2") + " is the former one, which the restore one has given up"
	if _, err := f.coordinator().Update(f.context(), s); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("when they are back: %v, want %q", err, want)
	}
}

// comeBack starts machines that were lost, whose members have a quorum.
func (f *lostFleet) comeBack(names ...string) {
	f.t.Helper()
	for _, err := range together(f.t, f.specs, func(s Spec) error {
		m := f.machines[s.Host.Address()]
		m.mu.Lock()
		defer m.mu.Unlock()
		m.lost = false
		return m.start()
	}, names...) {
		if err != nil {
			f.t.Fatal(err)
		}
	}
	f.on(names[0], func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.Get(ctx, "/registry/pods/a")
		return err
	})
}

// unstarted is a machine as a process sees it that ends when it has put restored data in place.
type unstarted struct {
	*testMachine
	then func() error
}

func (m unstarted) Change(ctx context.Context, c host.Change, a machine.Action) (host.Applied, error) {
	out, err := m.testMachine.Change(ctx, c, a)
	if a.Verb == machine.PlaceRestored {
		return out, errors.Join(err, m.then())
	}
	return out, err
}

// newFormerFleet returns a cluster of cp1, which a restore on cp2 has given up. The process has ended before it started
// the restored data, and cp1 serves again.
func newFormerFleet(t *testing.T) *lostFleet {
	t.Helper()
	f := newAbandonedFleet(t)
	if err := f.restoreOn("cp2", func() error { return errDied }); !errors.Is(err, errDied) {
		t.Fatal(err)
	}
	f.comeBack("cp1")
	return f
}

// restoreOn creates a member from a snapshot, and calls placed when the restored data is in place.
func (f *lostFleet) restoreOn(name string, placed func() error) error {
	s := f.specs[name]
	s.Abandoned = host.AbandonedAt(f.address("cp1"))
	process := f.coordinator()
	process.machine = func(h *host.Host) machine.Machine { return unstarted{f.machines[h.Address()], placed} }
	_, err := process.Create(f.context(), s)
	return err
}

// newAbandonedFleet returns a cluster of cp1, whose machine does not answer, and a snapshot for a restore on cp2.
func newAbandonedFleet(t *testing.T) *lostFleet {
	t.Helper()
	if _, err := os.Stat(filepath.Join(components(), "etcd-v"+newRelease, "etcdutl")); err != nil {
		testrun.Missing(t, "etcd ", newRelease, " is not built: ", err)
	}
	f := &lostFleet{
		fleet: newSmallFleet(t), snapshot: "/root/good.db", stopped: map[string]int{}, down: map[string]bool{},
	}
	f.specs = f.fleet.specs("cp1", "cp2")
	f.create(f.specs, "cp1")
	f.put("/registry/pods/a", "saved")
	f.save("cp1")
	f.put("/registry/pods/a", "later")
	saved, err := os.ReadFile(f.machine("cp1").at(f.snapshot))
	to := f.machine("cp2").at(f.snapshot)
	library := filepath.Dir(f.machine("cp2").at(layout.DefaultDataDir))
	if err = errors.Join(err, os.MkdirAll(library, 0o700), os.MkdirAll(filepath.Dir(to), 0o700),
		os.WriteFile(to, saved, 0o600)); err != nil {
		t.Fatal(err)
	}
	f.kill("cp1", true)
	f.request(machine.Restore{ID: "one", Snapshot: f.snapshot})
	return f
}

// holds checks what a member serves.
func (f *lostFleet) holds(name, value string) {
	f.t.Helper()
	f.on(name, func(ctx context.Context, c *clientv3.Client) error {
		got, err := c.Get(ctx, "/registry/pods/a")
		if err == nil && (len(got.Kvs) != 1 || string(got.Kvs[0].Value) != value) {
			f.t.Errorf("%s serves %v, want %s", name, got.Kvs, value)
		}
		return err
	})
}

// TestFormerClusterBeforeStart: what a restore has given up comes back with a quorum, after the restored data was put
// in place and before it is started. It is not started while the former cluster serves, and no member of that one is
// taken for one of the restored cluster.
func TestFormerClusterBeforeStart(t *testing.T) {
	t.Parallel()
	f := newFormerFleet(t)
	const want = "another etcd cluster serves"
	for _, name := range []string{"cp1", "cp2"} {
		if _, err := f.coordinator().Update(f.context(), f.specs[name]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if plan, err := f.coordinator().PreviewRestore(f.context(), f.specs["cp2"]); err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("the plan is %s, %v", plan, err)
	}
	if f.machine("cp2").running() || f.record("cp1").Restored != "" {
		t.Fatalf("cp2 runs: %t, cp1 records %+v", f.machine("cp2").running(), f.record("cp1"))
	}

	// The former cluster is stopped, as the error says: the restore goes on.
	f.kill("cp1", false)
	f.clusters = f.coordinator()
	for _, name := range []string{"cp2", "cp1"} {
		if _, err := f.clusters.Update(f.context(), f.specs[name]); err != nil {
			t.Fatalf("continue %s: %v", name, err)
		}
		f.holds(name, "saved")
	}
	f.wantRoster(f.specs["cp1"], "cp1 cp2")
}

// TestFormerClusterElects: what a restore has given up comes back before the restored data is started, and does not
// serve yet. It gets the time for it, and the restored data is not started while it may get a quorum.
func TestFormerClusterElects(t *testing.T) {
	t.Parallel()
	f := newFormerFleet(t)
	former := f.machine("cp1")
	starts := func(late time.Duration) {
		f.kill("cp1", false)
		former.mu.Lock()
		defer former.mu.Unlock()
		former.late = late
		if err := former.start(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		late time.Duration // until it answers
		wait time.Duration
		want string
	}{
		{time.Hour, time.Second, "does not say whom it knows"},
		{5 * time.Second, time.Minute, "another etcd cluster serves: its leader is cp1"},
	} {
		starts(c.late)
		process := f.coordinator()
		process.pace.DeadAfter = c.wait
		if _, err := process.Update(f.context(), f.specs["cp2"]); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("a former member that answers after %s: %v, want %q", c.late, err, c.want)
		}
		if f.machine("cp2").running() {
			t.Fatalf("the restored data is started beside a former member that answers after %s", c.late)
		}
	}

	// A Create whose time is over meanwhile leaves no state: the next apply would destroy the restored data.
	starts(time.Hour)
	process := f.coordinator()
	process.pace.DeadAfter = time.Minute
	if _, err := process.Create(soon(t, 2*time.Second), f.specs["cp2"]); !errors.Is(err, ErrAdopted) ||
		!errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		t.Errorf("a Create that waits for the former cluster: %v", err)
	}
}

// TestFormerClusterReturnsInTheRun: what a restore gives up comes back while the restored data is put in place. The
// data is not started.
func TestFormerClusterReturnsInTheRun(t *testing.T) {
	t.Parallel()
	f := newAbandonedFleet(t)
	err := f.restoreOn("cp2", func() error {
		f.comeBack("cp1")
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "another etcd cluster") || !errors.Is(err, ErrAdopted) {
		t.Errorf("beside the former cluster: %v", err)
	}
	if f.machine("cp2").running() {
		t.Error("the restored data is started beside the former cluster")
	}
}

// TestFormerClusterStays: without the restore, the machine of the restored data joins the former cluster.
func TestFormerClusterStays(t *testing.T) {
	t.Parallel()
	f := newFormerFleet(t)
	f.request(machine.Restore{})
	f.clusters = f.coordinator()
	if _, err := f.clusters.Update(f.context(), f.specs["cp2"]); err != nil {
		t.Fatal(err)
	}
	f.wantRoster(f.specs["cp1"], "cp1 cp2")
	f.holds("cp2", "later")
}

// TestFormerDataIsNotWiped: a member that a restore has given up comes back alone, and is destroyed. Its data, which
// may be newer than what was restored, is archived.
func TestFormerDataIsNotWiped(t *testing.T) {
	t.Parallel()
	f := newFormerFleet(t)
	f.kill("cp1", false)
	f.clusters = f.coordinator()
	if _, err := f.clusters.Update(f.context(), f.specs["cp2"]); err != nil {
		t.Fatal(err)
	}
	s := f.specs["cp1"]
	s.OnDestroy = machine.Wipe
	if err := f.clusters.Delete(f.context(), s, DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	m := f.machine("cp1")
	m.wantClean()
	kept, _ := filepath.Glob(m.at(layout.ArchiveRoot(layout.DefaultDataDir)) + "/*/data/member")
	if len(kept) != 1 {
		t.Errorf("archives %q, want one", kept)
	}
	f.wantRoster(f.specs["cp2"], "cp2")
}

// TestEmptyInherited: if a member runs from kubeadm's manifest, what serves may be an empty cluster, and only the data
// on its machine is in the way of a restore.
func TestEmptyInherited(t *testing.T) {
	cp1 := machine.Observed{Name: "cp1", Address: "10.0.0.11"}
	in := restoreInput{ID: "one", Serves: "its members answer", Machines: []machine.Observed{cp1}}
	const want = "on its machine only"
	if d := decideRestore(in); d.Case != restoreRefuse || strings.Contains(d.Next, want) {
		t.Errorf("a unit: %+v", d)
	}
	in.Machines[0].Facts.Files = map[string]host.FileState{machine.ManifestPath: {Content: "kind: Pod\n"}}
	if d := decideRestore(in); d.Case != restoreRefuse || !strings.Contains(d.Next, want) ||
		!strings.Contains(d.Next, "cp1 (10.0.0.11)") {
		t.Errorf("kubeadm's manifest: %+v", d)
	}
}

package etcd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/wait"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/poll"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

func TestBootstrapByRendezvous(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	begin := time.Now()
	f.create(specs, "cp1", "cp2", "cp3")
	t.Logf("three members in %s", time.Since(begin).Round(time.Millisecond))
	v := f.calm(specs["cp1"])
	if roster(v) != "cp1 cp2 cp3" {
		t.Fatalf("members are %s", roster(v))
	}
	for name, s := range specs {
		entry, _ := v.ByPeerURL(s.PeerURL())
		if id := f.record(name); id.MemberID != fmt.Sprintf("%x", entry.ID) ||
			id.EtcdCluster != fmt.Sprintf("%x", v.ClusterID) {
			t.Errorf("%s is recorded as %+v, is %x of cluster %x", name, id, entry.ID, v.ClusterID)
		}
		if f.machine(name).starts != 1 {
			t.Errorf("%s was started %d times", name, f.machine(name).starts)
		}
		status, err := f.clusters.Read(f.context(), s)
		if err != nil || len(status.Drift) > 0 || !status.Healthy || status.Version != "3.6.16" ||
			status.ConfigDigest != machine.WantedDigest(s.Spec) {
			t.Errorf("read %s: %+v, %v", name, status, err)
		}
	}
	// Applying the same again changes nothing.
	for name, s := range specs {
		if _, err := f.clusters.Update(f.context(), s); err != nil {
			t.Errorf("update %s: %v", name, err)
		}
		if f.machine(name).starts != 1 {
			t.Errorf("an update without a change restarted %s", name)
		}
	}
}

func TestSequentialJoin(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp1") // as with -parallelism=1
	f.wantRoster(specs["cp1"], "cp1")
	f.create(specs, "cp2")
	f.create(specs, "cp3")
	f.wantRoster(specs["cp1"], "cp1 cp2 cp3")
	for _, name := range []string{"cp1", "cp2", "cp3"} {
		if f.machine(name).files[layout.EnvPath].Path != "" {
			t.Errorf("%s still has %s", name, layout.EnvPath)
		}
	}
}

func TestCutOffJoinResumes(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2")
	f.create(specs, "cp1")

	// Interrupted between the addition and the start: an unnamed learner is left.
	stale := f.addLearner(specs["cp1"], specs["cp2"])
	f.clusters = f.coordinator()
	f.create(specs, "cp2")
	v := f.wantRoster(specs["cp1"], "cp1 cp2")
	if _, still := v.Member(stale); still {
		t.Error("the stale learner's id was reused")
	}
}

func TestCutOffLearnerIsPromoted(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2")
	f.create(specs, "cp1")
	// The caller dies after the learner was started: nothing is undone.
	learner := f.beginJoin(f.context(), specs["cp2"]).added
	f.create(specs, "cp2")
	v := f.wantRoster(specs["cp1"], "cp1 cp2")
	if _, ok := v.Member(learner); !ok {
		t.Error("the learner was not continued but made anew")
	}
	if f.machine("cp2").starts != 1 {
		t.Errorf("cp2 was started %d times", f.machine("cp2").starts)
	}
}

// beginJoin joins the member of s up to its start as a learner.
func (f *fleet) beginJoin(ctx context.Context, s Spec) *joining {
	f.t.Helper()
	j := &joining{cl: f.clusters.of(s), s: s, turn: new(wait.Queue).Enter()}
	clients, err := j.cl.connect(s)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(clients.Close)
	j.clients = clients
	if err := j.observe(ctx); err != nil {
		f.t.Fatal(err)
	}
	if err := j.install(ctx); err != nil {
		f.t.Fatal(err)
	}
	for j.added == 0 { // first, a snapshot is saved
		if err := j.add(ctx, f.view(s)); err != nil {
			f.t.Fatal(err)
		}
	}
	return j
}

func TestFailedJoinIsUndone(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2")
	f.create(specs, "cp1")
	f.machine("cp2").broken = true
	ctx, cancel := context.WithTimeout(f.context(), 3*time.Second)
	defer cancel()
	if _, err := f.clusters.Create(ctx, specs["cp2"]); err == nil {
		t.Fatal("a member that cannot start was created")
	}
	f.wantRoster(specs["cp1"], "cp1")
	f.machine("cp2").broken = false
	f.create(specs, "cp2")
}

func TestCutOffBootstrapStartsAnew(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	// One of three was started with the static cluster of three; then the process ended.
	s := specs["cp1"]
	cl := f.clusters.of(s)
	own := cl.observe(f.context(), s, s.Name, s.Host)
	c, err := machine.Certificates(s.Spec, own, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	members := map[string]string{}
	for name, s := range specs {
		members[name] = s.PeerURL()
	}
	change, _ := machine.NewMemberChange(s.Spec, machine.Observed{}, c,
		machine.ID{Member: membership.StaticMemberID(s.PeerURL(), f.bundle.ClusterID)},
		machine.Environment(f.bundle.ClusterID, "new", members))
	if _, err := f.machine("cp1").Change(f.context(), change, machine.Action{Verb: machine.Start}); err != nil {
		t.Fatal(err)
	}
	f.create(specs, "cp1", "cp2", "cp3")
	f.wantRoster(s, "cp1 cp2 cp3")
	if f.machine("cp1").archives != 1 {
		t.Errorf("%d archives, want that of the cut-off attempt", f.machine("cp1").archives)
	}
}

func TestStoppedClusterIsResumed(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp1", "cp2", "cp3")
	before := f.view(specs["cp1"])
	for name := range specs {
		f.kill(name, false)
	}
	f.clusters = f.coordinator()
	f.create(specs, "cp1", "cp2", "cp3")
	if after := f.calm(specs["cp1"]); after.ClusterID != before.ClusterID || roster(after) != "cp1 cp2 cp3" {
		t.Errorf("another cluster came of it:\n%s", after)
	}
}

func TestNoSecondCluster(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	f.specs("cp1", "cp2", "cp3")
	f.machine("cp3").lost = true
	for name, err := range together(t, specs,
		func(s Spec) error { _, err := f.clusters.Create(f.context(), s); return err }, "cp1", "cp2") {
		if err == nil || !strings.Contains(err.Error(), "cp3") || !problem.Untouched(err) {
			t.Errorf("create %s with cp3 unreachable: %v", name, err)
		}
	}
	// A cluster on two members that lost its quorum is not replaced either.
	f.machine("cp3").lost = false
	f.create(specs, "cp1", "cp2")
	f.kill("cp1", false)
	f.wipe("cp1")
	f.clusters = f.coordinator()
	_, err := f.clusters.Create(f.context(), specs["cp1"])
	if err == nil || !strings.Contains(err.Error(), "quorum lost") || !problem.Untouched(err) {
		t.Errorf("create beside a member without quorum: %v", err)
	}
	// It proposes the survivor, and says what it has.
	table := regexp.MustCompile(`SURVIVOR +ADDRESS +TERM +INDEX +REVISION\ncp2 +\S+ +\d+ +\d+ +1\n`)
	if text := err.Error(); !strings.Contains(text, `restore = { id = "a new name", member = "cp2" }`) ||
		!table.MatchString(text) {
		t.Errorf("quorum lost, and the next step is %s", text)
	}
}

func TestAnotherClustersDataIsRefused(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1")
	f.create(specs, "cp1")
	other := newFleet(t)
	other.machines, other.net = f.machines, f.net
	s := other.specs("cp1")["cp1"]
	if _, err := other.clusters.Create(f.context(), s); err == nil || !strings.Contains(err.Error(), "another cluster") ||
		!problem.Untouched(err) {
		t.Errorf("a member on another cluster's machine: %v", err)
	}
	if err := other.clusters.Delete(f.context(), s, DeleteOptions{}); err != nil { // its machine is not changed
		t.Errorf("delete of a member whose machine is another cluster's: %v", err)
	}
	f.wantRoster(specs["cp1"], "cp1")
}

func TestLeaderLeaves(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp1", "cp2", "cp3")
	leader := leaderOf(f.calm(specs["cp1"]))
	if err := f.clusters.Delete(f.context(), specs[leader], DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.machine(leader).wantClean()
	for name, s := range specs {
		if name == leader {
			if _, err := f.clusters.Read(f.context(), s); !errors.Is(err, ErrGone) {
				t.Errorf("read of the removed member: %v", err)
			}
			continue
		}
		if v := f.view(s); len(v.Members) != 2 {
			t.Errorf("members are %s", roster(v))
		}
	}
	// Deleting again is a no-op.
	if err := f.clusters.Delete(f.context(), specs[leader], DeleteOptions{}); err != nil {
		t.Errorf("second delete: %v", err)
	}
}

func TestDestroyAll(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp1", "cp2", "cp3")
	f.calm(specs["cp1"])
	for name, err := range together(t, specs, func(s Spec) error {
		return f.clusters.Delete(f.context(), s, DeleteOptions{})
	}, "cp1", "cp2", "cp3") {
		if err != nil {
			t.Errorf("delete %s: %v", name, err)
		}
		f.machine(name).wantClean()
	}
	snapshots := 0
	for _, m := range f.machines {
		got, err := filepath.Glob(m.at(layout.DefaultDataDir) + "-archive/*/snapshot.db")
		if err != nil {
			t.Fatal(err)
		}
		snapshots += len(got)
		if m.archives != 1 {
			t.Errorf("%s has %d archives, want one", m.address, m.archives)
		}
	}
	if snapshots != 1 {
		t.Errorf("%d snapshots, want the one of the last member: the others must have left before it", snapshots)
	}
}

// TestNoRoomForTheLastSnapshot verifies that the last member stays, unchanged, if there is
// no room for its last snapshot.
func TestNoRoomForTheLastSnapshot(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1")
	f.create(specs, "cp1")
	f.machine("cp1").free = snapshot.Reserve
	err := f.clusters.Delete(f.context(), specs["cp1"], DeleteOptions{})
	if err == nil || !strings.Contains(err.Error(), "not enough space") ||
		!strings.Contains(err.Error(), layout.ArchiveRoot(layout.DefaultDataDir)) || !problem.Untouched(err) {
		t.Errorf("delete without room: %v", err)
	}
	if status, err := f.clusters.Read(f.context(), specs["cp1"]); err != nil || !status.Healthy || len(status.Drift) > 0 ||
		f.machine("cp1").starts != 1 {
		t.Errorf("left as %+v, %v", status, err)
	}
	f.machine("cp1").free = 1 << 40
	if err := f.clusters.Delete(f.context(), specs["cp1"], DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// TestArchivesKeptTouchesNothing verifies that changing the number has no effect until the
// next archive is made.
func TestArchivesKeptTouchesNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1")
	f.create(specs, "cp1")
	s := specs["cp1"]
	s.ArchivesKept = 1
	if status, err := f.clusters.Read(f.context(), s); err != nil || len(status.Drift) > 0 {
		t.Errorf("read: %v, %v", status.Drift, err)
	}
	before := string(f.machine("cp1").files[layout.RecordPath].Content)
	if _, err := f.clusters.Update(f.context(), s); err != nil ||
		string(f.machine("cp1").files[layout.RecordPath].Content) != before {
		t.Errorf("an update wrote something, or failed: %v", err)
	}
	if a := s.ArchiveAction(machine.Clear, false); a.Wipe || a.Keep != 1 || a.Member != "cp1" {
		t.Errorf("put away by %+v", a)
	}
	s.ArchivesKept, s.OnDestroy = 0, machine.Wipe
	if a := s.ArchiveAction(machine.Clear, false); !a.Wipe {
		t.Errorf("wiped by %+v", a)
	}
	if a := s.ArchiveAction(machine.Clear, true); a.Wipe || a.Member != "cp1" || a.Keep != machine.DefaultArchivesKept {
		t.Errorf("kept by %+v", a)
	}
}

func TestDestroyHalfApplied(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp1", "cp2", "cp3")
	f.kill("cp1", false) // two of three stopped: no quorum
	f.kill("cp2", false)
	f.clusters = f.coordinator()
	wipe := specs["cp3"]
	wipe.OnDestroy = machine.Wipe
	specs["cp3"] = wipe
	for name, err := range together(t, specs, func(s Spec) error {
		return f.clusters.Delete(f.context(), s, DeleteOptions{})
	}, "cp1", "cp2", "cp3") {
		if err != nil {
			t.Errorf("delete %s: %v", name, err)
		}
		f.machine(name).wantClean()
		if f.machine(name).archives != 1 {
			t.Errorf("%s: data that no quorum vouched for was not kept", name)
		}
	}
}

func TestRefusedRemoval(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp1", "cp2", "cp3")
	f.calm(specs["cp1"])
	f.kill("cp3", true)
	err := f.clusters.Delete(f.context(), specs["cp2"], DeleteOptions{})
	if err == nil || !strings.Contains(err.Error(), "lose quorum") || !strings.Contains(err.Error(), "cp3") ||
		!problem.Untouched(err) {
		t.Fatalf("a removal that loses quorum: %v", err)
	}
	f.wantRoster(specs["cp1"], "cp1 cp2 cp3")

	// The dead member can be removed by the survivors, but its machine requires the user's
	// consent.
	err = f.clusters.Delete(f.context(), specs["cp3"], DeleteOptions{})
	if err == nil || !strings.Contains(err.Error(), "abandon_unreachable_hosts") || problem.Untouched(err) {
		t.Errorf("delete of an unreachable member: %v", err)
	}
	f.wantRoster(specs["cp1"], "cp1 cp2")
	if err := f.clusters.Delete(f.context(), specs["cp3"],
		DeleteOptions{Abandon: host.AbandonedAt(f.address("cp3"))}); err != nil {
		t.Errorf("delete with abandon: %v", err)
	}
}

func TestRebuiltMachineIsReplaced(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp1", "cp2", "cp3")
	before, _ := f.calm(specs["cp1"]).ByName("cp1")
	f.wipe("cp1") // the first node is as replaceable as any
	status, err := f.clusters.Read(f.context(), specs["cp1"])
	if err != nil || len(status.Drift) != 1 || !strings.Contains(status.Drift[0], "rebuilt") {
		t.Fatalf("read of a rebuilt machine: %v, %v", status.Drift, err)
	}
	if _, err := f.clusters.Update(f.context(), specs["cp1"]); err != nil {
		t.Fatal(err)
	}
	v := f.wantRoster(specs["cp2"], "cp1 cp2 cp3")
	if after, _ := v.ByName("cp1"); after.ID == before.ID {
		t.Error("the emptied member was started under its old id")
	}
}

func TestUpdateTakesTheLeaderLast(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp1", "cp2", "cp3")
	leader := leaderOf(f.calm(specs["cp1"]))
	changed := map[string]Spec{}
	for name, s := range specs {
		s.ExtraArgs = map[string]string{"quota-backend-bytes": "4294967296"}
		changed[name] = s
	}
	status, err := f.clusters.Read(f.context(), changed[leader])
	if err != nil || !strings.Contains(strings.Join(status.Drift, "\n"), "flag --quota-backend-bytes is \"8589934592\", "+
		"wanted \"4294967296\"") {
		t.Errorf("drift of a flag: %v, %v", status.Drift, err)
	}
	order := make(chan string, 3)
	for name, err := range together(t, changed, func(s Spec) error {
		status, err := f.clusters.Update(f.context(), s)
		order <- s.Name
		if err == nil && len(status.Drift) > 0 {
			err = errors.New(strings.Join(status.Drift, "\n"))
		}
		return err
	}, "cp1", "cp2", "cp3") {
		if err != nil {
			t.Fatalf("update %s: %v", name, err)
		}
	}
	if <-order; <-order == leader || <-order != leader {
		t.Errorf("the leader %s was not the last", leader)
	}
	if v := f.calm(specs["cp1"]); leaderOf(v) == leader {
		t.Errorf("leadership did not move off %s", leader)
	}
}

func TestUpdateRefusesToLoseQuorum(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp1", "cp2", "cp3")
	f.calm(specs["cp1"])
	f.kill("cp3", false)
	s := specs["cp1"]
	s.ExtraArgs = map[string]string{"max-txn-ops": "256"}
	_, err := f.clusters.Update(f.context(), s)
	if err == nil || !strings.Contains(err.Error(), "lose quorum") || !problem.Untouched(err) ||
		f.machine("cp1").starts != 1 {
		t.Errorf("a restart that loses quorum: %v", err)
	}
	// The stopped member itself may be changed, and the change starts it.
	s = specs["cp3"]
	s.ExtraArgs = map[string]string{"max-txn-ops": "256"}
	if status, err := f.clusters.Update(f.context(), s); err != nil || !status.Healthy {
		t.Errorf("update of the stopped member: %+v, %v", status, err)
	}
}

func TestCertificatesAreReplacedWithoutARestart(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1")
	f.create(specs, "cp1")
	m, s := f.machine("cp1"), specs["cp1"]
	key := "/etc/kubernetes/pki/etcd/server.key"
	m.mu.Lock()
	damaged := m.files[key]
	damaged.Content = []byte("not the key of the certificate")
	m.files[key] = damaged
	m.mu.Unlock()
	status, err := f.clusters.Read(f.context(), s)
	if err != nil || len(status.Drift) != 1 ||
		!strings.Contains(status.Drift[0], "server.crt and its key are not the pair") {
		t.Fatalf("drift of a key: %v, %v", status.Drift, err)
	}
	peer := string(m.files["/etc/kubernetes/pki/etcd/peer.crt"].Content)
	status, err = f.clusters.Update(f.context(), s)
	if err != nil || len(status.Drift) > 0 {
		t.Fatalf("after the update: %v, %v", status.Drift, err)
	}
	if string(m.files["/etc/kubernetes/pki/etcd/peer.crt"].Content) != peer {
		t.Error("a certificate that was fine was issued anew")
	}
	if m.starts != 1 {
		t.Error("a new certificate restarted etcd")
	}
}

// TestRenewal verifies that due certificates are reported as drift and renewed without a
// restart.
func TestRenewal(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1")
	f.create(specs, "cp1")
	m, early := f.machine("cp1"), specs["cp1"]
	early.EarlyRenewal = 365*24*time.Hour - time.Millisecond // all are due
	status, err := f.clusters.Read(f.context(), early)
	if err != nil || len(status.Drift) != 3 || !strings.Contains(status.Drift[0], "it is due for renewal") {
		t.Fatalf("drift %q, %v", status.Drift, err)
	}
	before := string(m.files["/etc/kubernetes/pki/etcd/server.crt"].Content)
	if _, err := f.clusters.Update(f.context(), early); err != nil {
		t.Fatal(err)
	}
	if string(m.files["/etc/kubernetes/pki/etcd/server.crt"].Content) == before || m.starts != 1 {
		t.Errorf("renewed: %v, started %d times", string(m.files["/etc/kubernetes/pki/etcd/server.crt"].Content) != before,
			m.starts)
	}
	if status, err = f.clusters.Read(f.context(), specs["cp1"]); err != nil || len(status.Drift) > 0 {
		t.Errorf("after the renewal: %q, %v", status.Drift, err)
	}
}

// TestRestartsByEvidence verifies that an edit that no process has read is undone without
// a restart: what etcd was started with decides, not what is on the disk.
func TestRestartsByEvidence(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1")
	f.create(specs, "cp1")
	m, s := f.machine("cp1"), specs["cp1"]
	edit := func(path, from, to string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		file := m.files[path]
		file.Content = []byte(strings.Replace(string(file.Content), from, to, 1))
		m.files[path] = file
	}
	for _, c := range []struct {
		name, path, from, to, word string
		restarts                   int
	}{
		{
			"the unit on disk", layout.UnitPath, "watch-progress-notify-interval=5s", "watch-progress-notify-interval=9s",
			`is "9s", wanted "5s"`, 0,
		},
		{
			"the authority on disk", layout.CAPath, "CERTIFICATE", "certificate",
			"does not contain the etcd CA certificate of the bundle", 0,
		},
		{
			"the note: it was started with another unit", layout.StartNote, "  " + layout.UnitPath, "0  " + layout.UnitPath,
			"was started with a different " + layout.UnitPath, 1,
		},
		{
			"the note: it was started with another authority", layout.StartNote, "  " + layout.CAPath, "0  " + layout.CAPath,
			"was started with a different " + layout.CAPath, 1,
		},
	} {
		edit(c.path, c.from, c.to)
		before := m.starts
		status, err := f.clusters.Read(f.context(), s)
		if err != nil || len(status.Drift) != 1 || !strings.Contains(status.Drift[0], c.word) {
			t.Errorf("%s: drift %q, %v, want %q", c.name, status.Drift, err, c.word)
		}
		status, err = f.clusters.Update(f.context(), s)
		if err != nil || len(status.Drift) > 0 || m.starts != before+c.restarts {
			t.Errorf("%s: %v, left %q, %d restarts, want %d", c.name, err, status.Drift, m.starts-before, c.restarts)
		}
	}
}

func TestReadOfAnUnreachableMachine(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp1", "cp2", "cp3")
	f.kill("cp3", true)
	if _, err := f.clusters.Read(f.context(), specs["cp3"]); err == nil || errors.Is(err, ErrGone) {
		t.Errorf("read of an unreachable machine: %v", err)
	}
}

// TestRemovedByHand removes a member from the list and leaves its machine unchanged, as an
// interrupted removal does.
func TestRemovedByHand(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp1", "cp2", "cp3")
	f.removeByHand(specs["cp1"], specs["cp3"])
	f.calm(specs["cp1"]) // the removed member may have been the leader
	status, err := f.clusters.Read(f.context(), specs["cp3"])
	if err != nil || len(status.Drift) != 1 ||
		!strings.Contains(status.Drift[0], "cp3: the cluster no longer lists this member") {
		t.Fatalf("read of a removed member: %v, %v", status.Drift, err)
	}
	status, err = f.clusters.Update(f.context(), specs["cp3"])
	if err != nil || len(status.Drift) > 0 || !status.Healthy || status.Learner {
		t.Fatalf("update of a removed member: %+v, %v", status, err)
	}
	f.wantRoster(specs["cp1"], "cp1 cp2 cp3")
	f.removeByHand(specs["cp1"], specs["cp3"])
	if err := f.clusters.Delete(f.context(), specs["cp3"], DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.machine("cp3").wantClean()
	if _, err := f.clusters.Read(f.context(), specs["cp3"]); !errors.Is(err, ErrGone) {
		t.Errorf("read of the deleted member: %v", err)
	}
}

// TestLastMemberLeavesLast destroys a cluster of which one member was removed before:
// without the last member nothing could tell whether the removed one still counts.
func TestLastMemberLeavesLast(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2")
	f.create(specs, "cp1", "cp2")
	f.removeByHand(specs["cp1"], specs["cp2"])
	f.calm(specs["cp1"])
	var mu sync.Mutex
	var gone []string
	ctx := problem.WithReport(f.context(), problem.Report{Progress: func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasSuffix(line, ": removed from the machine") {
			gone = append(gone, line)
		}
	}})
	hold := f.clusters.of(specs["cp1"]).turns.Enter() // until both wait, cp1 first
	var group sync.WaitGroup
	for i, name := range []string{"cp1", "cp2"} {
		group.Go(func() {
			if err := f.clusters.Delete(ctx, specs[name], DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
		for waiting := 0; waiting <= i; waiting, _ = hold.Others() {
			time.Sleep(time.Millisecond)
		}
	}
	hold.Leave()
	group.Wait()
	if want := []string{"etcd cp2: removed from the machine", "etcd cp1: removed from the machine"}; !slices.Equal(gone,
		want) {
		t.Errorf("they left as %q, want %q", gone, want)
	}
}

// addLearner adds the member of s as a learner, through the member on another machine, and does not start it.
func (f *fleet) addLearner(through, s Spec) uint64 {
	f.t.Helper()
	clients, err := f.clusters.of(through).connect(through)
	if err != nil {
		f.t.Fatal(err)
	}
	defer clients.Close()
	id, err := clients.AddLearner(f.context(), through.Host.Address(), s.PeerURL())
	if err != nil {
		f.t.Fatal(err)
	}
	return id
}

// removeByHand runs "etcdctl member remove" through another member's machine.
func (f *fleet) removeByHand(through, s Spec) {
	f.t.Helper()
	v := f.calm(through)
	entry := machine.EntryOf(&v, s.Spec)
	if entry == nil {
		f.t.Fatalf("%s is not listed in %s", s.Name, roster(v))
	}
	clients, err := f.clusters.of(through).connect(through)
	if err != nil {
		f.t.Fatal(err)
	}
	defer clients.Close()
	if _, err := poll.Until(f.context(), 100*time.Millisecond, 20*time.Second, func() (bool, error) {
		err := clients.Remove(f.context(), through.Host.Address(), entry.ID)
		return err == nil, nil
	}); err != nil {
		f.t.Fatal(err)
	}
}

package etcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

var trio = []string{"cp1", "cp2", "cp3"}

// lostFleet is a cluster with a snapshot, which loses its members.
type lostFleet struct {
	*fleet
	specs    map[string]Spec
	snapshot string // path on every machine
	before   int64  // the newest revision that was served

	mu      sync.Mutex
	stopped map[string]int  // how often the replica on a machine was stopped, by address
	down    map[string]bool // the machines whose replica does not run, by address
}

// returning starts the replica on a machine when its member serves again.
type returning struct {
	f       *lostFleet
	address string
	death   *death // of the process that does it
}

func (r returning) Begins(context.Context) error { return r.death.dead() }

func (r returning) Ended(context.Context) error {
	return r.death.step("start of the replica on "+r.address, func() error {
		r.f.mu.Lock()
		defer r.f.mu.Unlock()
		delete(r.f.down, r.address)
		return nil
	})
}

func newLostFleet(t *testing.T) *lostFleet {
	t.Helper()
	return newLostFleetIn(t, nil)
}

// newLostFleetIn returns one whose members may have data directories of their own.
func newLostFleetIn(t *testing.T, dataDirs map[string]string) *lostFleet {
	t.Helper()
	if _, err := os.Stat(filepath.Join(components(), "etcd-v"+newRelease, "etcdutl")); err != nil {
		testrun.Missing(t, "etcd ", newRelease, " is not built: ", err)
	}
	f := &lostFleet{fleet: newFleet(t), snapshot: "/root/good.db", stopped: map[string]int{}, down: map[string]bool{}}
	f.specs = f.fleet.specs(trio...)
	for name, dataDir := range dataDirs {
		s := f.specs[name]
		s.DataDir = dataDir
		f.specs[name] = s
	}
	f.create(f.specs, trio...)
	f.put("/registry/pods/a", "saved")
	f.put(client.MasterLeases+"10.9.9.9", "stale")
	f.put("/other/masterleases/10.9.9.9", "stale")
	f.save("cp1")
	f.put("/registry/pods/a", "later")
	return f
}

func (f *lostFleet) on(name string, call func(context.Context, *clientv3.Client) error) {
	f.t.Helper()
	clients, err := f.clusters.of(f.specs[name]).connect(f.specs[name])
	if err != nil {
		f.t.Fatal(err)
	}
	defer clients.Close()
	if err := clients.Call(f.context(), f.address(name), client.ChangeTimeout, call); err != nil {
		f.t.Fatalf("%s: %v", name, err)
	}
}

func (f *lostFleet) put(key, value string) {
	f.t.Helper()
	f.on("cp1", func(ctx context.Context, c *clientv3.Client) error {
		answer, err := c.Put(ctx, key, value)
		if err == nil {
			f.before = max(f.before, answer.Header.Revision)
		}
		return err
	})
}

// save saves a snapshot with its hash on the machine.
func (f *lostFleet) save(name string) {
	f.t.Helper()
	file := f.machine(name).at(f.snapshot)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		f.t.Fatal(err)
	}
	out, err := os.Create(file)
	if err != nil {
		f.t.Fatal(err)
	}
	f.on(name, func(_ context.Context, c *clientv3.Client) error {
		stream, err := c.SnapshotWithVersion(f.context())
		if err == nil {
			_, err = out.ReadFrom(stream.Snapshot)
		}
		return errors.Join(err, out.Close())
	})
}

// empty makes machines lose the data of their members, and nothing else.
func (f *lostFleet) empty(names ...string) {
	f.t.Helper()
	for _, name := range names {
		m := f.machine(name)
		f.kill(name, false)
		if err := os.RemoveAll(m.at(f.specs[name].Directory() + "/member")); err != nil {
			f.t.Fatal(err)
		}
	}
}

// request sets a restore on all members; one without ID is none.
func (f *lostFleet) request(r machine.Restore) {
	r.Bump = machine.BumpAutomatically
	for name, s := range f.specs {
		if s.Restore = &r; r.ID == "" {
			s.Restore = nil
		}
		s.StopReplica = f.stopReplica
		f.specs[name] = s
	}
}

// stopReplica checks that API servers stop while the former data is still in place.
func (f *lostFleet) stopReplica(_ context.Context, h *host.Host) error {
	m := f.machines[h.Address()]
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running() && m.server.Server.Leader() != 0 {
		f.t.Errorf("the API server on %s stops although etcd serves", m.address)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped[m.address]++
	f.down[m.address] = true
	return nil
}

func (f *lostFleet) update(c *Clusters) map[string]error {
	return together(f.t, f.specs, func(s Spec) error {
		status, err := c.Update(f.context(), s)
		if err == nil && (!status.Healthy || status.Learner || len(status.Drift) > 0) {
			err = fmt.Errorf("updated to %+v", status)
		}
		return err
	}, trio...)
}

func (f *lostFleet) mustUpdate(what string) {
	f.t.Helper()
	f.clusters = f.coordinator()
	for name, err := range f.update(f.clusters) {
		if err != nil {
			f.t.Fatalf("%s: %s: %v", what, name, err)
		}
	}
}

func (f *lostFleet) refuses(want string) {
	f.t.Helper()
	for name, err := range f.update(f.coordinator()) {
		if err == nil || !strings.Contains(err.Error(), want) {
			f.t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// serves checks what every member serves.
func (f *lostFleet) serves(what, value string) {
	f.t.Helper()
	f.wantRoster(f.specs["cp1"], "cp1 cp2 cp3")
	before := f.before
	for _, name := range trio {
		f.on(name, func(ctx context.Context, c *clientv3.Client) error {
			pods, err := c.Get(ctx, "/", clientv3.WithPrefix())
			if err != nil {
				return err
			}
			if len(pods.Kvs) != 1 || string(pods.Kvs[0].Value) != value || pods.Header.Revision <= before {
				f.t.Errorf("%s: %s serves %v at revision %d, want %q after %d", what, name, pods.Kvs, pods.Header.Revision,
					value, before)
			}
			f.before = max(f.before, pods.Header.Revision)
			return nil
		})
		if r := f.record(name); r.Restored != f.specs[name].Restore.ID || r.Restoring != "" {
			f.t.Errorf("%s: %s records %+v", what, name, r)
		}
	}
}

// TestRestoreLost restores a cluster without data from a snapshot, once, and recovers one
// without quorum from its survivor.
func TestRestoreLost(t *testing.T) {
	t.Parallel()
	f := newLostFleet(t)
	f.request(machine.Restore{ID: "one", Snapshot: f.snapshot})
	f.refuses("the cluster serves")
	f.empty(trio...)
	f.request(machine.Restore{ID: "one", Snapshot: "/root/absent.db"})
	f.refuses("none of the machines of this run has /root/absent.db")
	f.request(machine.Restore{ID: "one", Snapshot: f.snapshot})
	f.mustUpdate("restore")
	f.serves("restored", "saved")

	if len(f.stopped) != len(trio) {
		t.Errorf("replicas were stopped on %v", f.stopped)
	}
	starts := f.machine("cp1").starts
	f.mustUpdate("the same again")
	if again := f.machine("cp1").starts; again != starts {
		t.Errorf("the same restore has started cp1 %d more times", again-starts)
	}
	f.put("/registry/pods/a", "survives")
	f.empty("cp1", "cp2")
	f.request(machine.Restore{ID: "two", Member: "cp2"})
	f.refuses("member cp2 has no data")
	f.request(machine.Restore{ID: "two", Member: "cp9"})
	f.refuses(`member "cp9" of restore is not part of this run`)
	f.machine("cp1").lost = true
	f.request(machine.Restore{ID: "two", Member: "cp3"})
	f.refuses("reach")
	f.machine("cp1").lost = false
	f.mustUpdate("recover")
	f.serves("recovered", "survives")
}

// TestRestoreDataDirectories: each member's data is in its own directory, as with a volume. A survivor is seen there,
// whoever is asked first, and nothing of it stays when all are restored.
func TestRestoreDataDirectories(t *testing.T) {
	testrun.Long(t)
	t.Parallel()
	f := newLostFleetIn(t, map[string]string{"cp1": "/srv/one/etcd", "cp3": "/srv/three/etcd"})
	f.put("/registry/pods/a", "survives")
	f.empty("cp1", "cp2")
	f.request(machine.Restore{ID: "one", Member: "cp3"})
	f.mustUpdate("recover")
	f.serves("recovered", "survives")
	f.put("/registry/pods/a", "forgotten")
	f.empty("cp1", "cp3")
	f.request(machine.Restore{ID: "two", Snapshot: f.snapshot})
	f.mustUpdate("restore")
	f.serves("restored", "saved")
	for _, name := range trio {
		archives, err := os.ReadDir(f.machine(name).at(layout.ArchiveRoot(f.specs[name].Directory())))
		if err != nil || len(archives) == 0 {
			t.Errorf("%s has no archive: %v", name, err)
		}
	}
}

// TestRestoreSilentSurvivor: a survivor that does not answer, because its etcd ends again and again, may know more than
// the one that is named.
func TestRestoreSilentSurvivor(t *testing.T) {
	t.Parallel()
	f := newLostFleet(t)
	f.put("/registry/pods/a", "survives")
	f.empty("cp1")
	f.kill("cp2", false)
	loops := f.machine("cp2")
	loops.mu.Lock()
	loops.ends = 1
	loops.mu.Unlock()
	f.request(machine.Restore{ID: "one", Member: "cp3"})
	f.refuses("member cp2 has data and does not answer, so it may know more")
	f.request(machine.Restore{ID: "one", Member: "cp3", AcceptOlder: true})
	f.mustUpdate("recover")
	f.serves("recovered", "survives")
}

// TestRestoreNeverOverStoppedMembers starts stopped members instead of restoring.
func TestRestoreNeverOverStoppedMembers(t *testing.T) {
	t.Parallel()
	f := newLostFleet(t)
	for _, name := range trio {
		f.kill(name, false)
	}
	f.request(machine.Restore{ID: "one", Snapshot: f.snapshot})
	f.refuses("the cluster serves")
	f.calm(f.specs["cp1"])
	f.on("cp2", func(ctx context.Context, c *clientv3.Client) error {
		got, err := c.Get(ctx, "/registry/pods/a")
		if err == nil && string(got.Kvs[0].Value) != "later" {
			t.Errorf("the members serve %q", got.Kvs[0].Value)
		}
		return err
	})
}

// TestRestoreCutOff ends the process before and after each change of a machine. The next
// process restores, and no member ever starts without data.
func TestRestoreCutOff(t *testing.T) {
	testrun.Long(t)
	t.Parallel()
	t.Run("snapshot", func(t *testing.T) {
		t.Parallel()
		f := newLostFleet(t)
		f.cutEverywhere(machine.Restore{Snapshot: f.snapshot}, "saved", trio...)
	})
	t.Run("member", func(t *testing.T) {
		t.Parallel()
		newLostFleet(t).cutEverywhere(machine.Restore{Member: "cp3"}, "late", "cp1", "cp2")
	})
}

// cutEverywhere loses members again and again, and ends each restore one step later, until
// a process ends only after the member with the restored data has served, and its replica was started. (The joins of
// the others have sweeps of their own.)
func (f *lostFleet) cutEverywhere(r machine.Restore, value string, lost ...string) {
	f.t.Helper()
	refused := 0
	for n := 1; ; n++ {
		f.put("/registry/pods/a", "late")
		f.empty(lost...)
		for _, name := range trio { // the programs are lost, too
			f.machine(name).bare = true
		}
		r.ID = fmt.Sprintf("cut-%d", n)
		f.request(r)
		d := &death{n: n}
		f.mortal(d)
		dying := f.coordinator()
		dying.machine = func(h *host.Host) machine.Machine { return mortal{f.machines[h.Address()], d} }
		f.update(dying)
		what := fmt.Sprintf("cut %d at %s", n, d.at)
		serving := map[string]bool{}
		for _, name := range trio {
			serving[f.address(name)] = f.restoredOn(name) == r.ID
		}
		f.neverEmpty(what)
		if f.stagedOnly() {
			refused++
			f.request(machine.Restore{})
			f.refuses("a restore was begun and not completed")
			f.neverEmpty(what + ", and an apply without the restore")
		}
		f.request(r)
		f.mortal(&death{})
		f.mustUpdate(what)
		f.serves(what, value)
		for address := range f.down {
			if !serving[address] { // otherwise nothing of the member differed, and its replica's own resource starts it
				f.t.Errorf("%s: the replica on %s does not run", what, address)
			}
		}
		clear(f.down)
		f.t.Log(what)
		if strings.HasPrefix(d.at, "start of the replica") && n%2 == 0 {
			if refused == 0 {
				f.t.Error("no process has ended between the archive and the restored data")
			}
			return
		}
		if d.at == "" {
			f.t.Fatal("no process has ended where it starts a replica")
		}
		if f.t.Failed() {
			f.t.FailNow()
		}
	}
}

// mortal lets the process that applies the members end where it stops or starts a replica, too.
func (f *lostFleet) mortal(d *death) {
	for name, s := range f.specs {
		s.Outage = returning{f, s.Host.Address(), d}
		s.StopReplica = func(ctx context.Context, h *host.Host) error {
			return d.step("stop of the replica on "+h.Address(), func() error { return f.stopReplica(ctx, h) })
		}
		f.specs[name] = s
	}
}

// stagedOnly reports whether no machine has data of a member, and what a restore has made is all there is.
func (f *lostFleet) stagedOnly() bool {
	staged := false
	for _, name := range trio {
		m, at := f.machine(name), f.specs[name].Directory()
		if _, err := os.Stat(m.at(at + "/member")); err == nil {
			return false
		}
		_, err := os.Stat(m.at(layout.ArchiveRoot(at) + "/restoring/key"))
		staged = staged || err == nil
	}
	return staged
}

// restoredOn returns the restore that the record of a machine says is complete.
func (f *lostFleet) restoredOn(name string) string {
	m := f.machine(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	record, err := machine.ReadRecord(string(m.files[layout.RecordPath].Content))
	if err != nil {
		return ""
	}
	return record.Restored
}

// neverEmpty starts each member that systemd starts at boot. None has an empty cluster.
func (f *lostFleet) neverEmpty(what string) {
	f.t.Helper()
	for _, name := range trio {
		m := f.machine(name)
		m.mu.Lock()
		if m.enabled && !m.running() {
			if err := m.start(); err != nil {
				f.t.Errorf("%s: start %s: %v", what, name, err)
			}
		}
		joins := strings.Contains(string(m.files[layout.EnvPath].Content), "existing") // has no data at first
		if m.running() && !joins && m.server.Server.KV().Rev() <= 1 {
			f.t.Errorf("%s: %s runs with an empty cluster", what, name)
		}
		m.mu.Unlock()
	}
}

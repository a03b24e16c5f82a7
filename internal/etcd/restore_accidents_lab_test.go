package etcd

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// TestRestoreAccidentsOnMachines: the disk fills while data is staged, and the operator's computer dies in each part of
// a restore. Nothing is lost, and the next apply completes.
func TestRestoreAccidentsOnMachines(t *testing.T) {
	testrun.Long(t)
	onMachines(t, "etcdaccident", "10.61.0.0/24", []string{newRelease}, func(t *testing.T) {
		d := &operatorDeath{}
		r := newRigAround(t, func(l *lab.Lab) host.Around { d.lab = l; return d.around })
		t.Run("disk", func(t *testing.T) { r.during(t, r.diskFills) })
		t.Run("operator", func(t *testing.T) { r.during(t, func() { r.operatorDies(d) }) })
	})
}

// TestStoreDiesOnMachines: the S3 server dies while a restore fetches a snapshot.
func TestStoreDiesOnMachines(t *testing.T) {
	if os.Getenv(withinLab) == "" {
		testrun.Long(t)
		if _, err := build.Set(t.Context(), "versitygw"); err != nil {
			testrun.Missing(t, "versitygw cannot be built: ", err)
		}
		programs(t) // downloads what is missing; the lab has no network
	}
	onLab(t, lab.Config{
		Name: "etcdstoredies", Subnet: netip.MustParsePrefix("10.64.0.0/24"), Machines: []string{"cp1", "store"},
	}, []string{newRelease}, storeDies)
}

// during makes a cluster on a small file system of cp1, and removes it after f.
func (r *rig) during(t *testing.T, f func()) {
	outer := r.t
	r.t = t
	defer func() { r.t = outer }()
	r.limit = 8 * time.Minute
	r.sh("cp1", "mkdir -p "+smallDisk+"; mountpoint -q "+smallDisk+" || mount -t tmpfs -o size="+smallDiskSize+" none "+
		smallDisk)
	for name, s := range r.specs {
		s.DataDir, s.ArchivesKept, s.Restore = smallDisk+"/data", 2, nil
		r.specs[name] = s
	}
	r.process() // this one knows that there was a cluster
	r.all("create", r.create)
	r.bulky()
	r.ctl("cp1", "snapshot save /root/good.db")
	f()
	r.all("destroy", r.delete)
}

// bulky writes a database that takes time to copy.
func (r *rig) bulky() {
	r.t.Helper()
	r.ctl("cp1", "put /registry/pods/a saved")
	r.sh("cp1", "set -e\nc() { "+machine.ArtifactDir(newRelease)+ctlFunction+"for n in $(seq 30); do "+
		"head -c 700000 /dev/urandom | base64 -w 0 | c put /filling/$n >/dev/null; done")
}

const (
	smallDisk     = "/srv/small"
	smallDiskSize = "4g" // of which little is used
)

// accidentSources are what a restore starts from; the survivor is on the small disk.
func (r *rig) accidentSources(id string) map[string]machine.Restore {
	return map[string]machine.Restore{
		id + "-snapshot": {Snapshot: "/root/good.db"}, id + "-member": {Member: "cp1"},
	}
}

// loseFor makes the members lose their data that have none in the restore.
func (r *rig) loseFor(source machine.Restore) {
	r.t.Helper()
	for _, name := range everyone {
		if source.Member != name {
			r.sh(name, "systemctl kill -s KILL etcd; systemctl stop etcd; rm -rf "+smallDisk+"/data/member")
		}
	}
}

// belongings are what no accident may take from cp1: the snapshot, and the directory with the survivor's data.
type belongings struct{ snapshot, inode string }

func (r *rig) belongings(source machine.Restore) (b belongings) {
	r.t.Helper()
	b.snapshot = r.sh("cp1", "sha256sum /root/good.db")
	if source.Member != "" {
		b.inode = strings.TrimSpace(r.sh("cp1", "stat -c %i "+smallDisk+"/data/member"))
	}
	return b
}

// nothingLost checks that cp1 still has them, the data in its place or in an archive.
func (r *rig) nothingLost(what string, b belongings) {
	r.t.Helper()
	if now := r.sh("cp1", "sha256sum /root/good.db"); now != b.snapshot {
		r.t.Errorf("%s: the snapshot was %s and is %s", what, b.snapshot, now)
	}
	if b.inode == "" {
		return
	}
	if r.sh("cp1", "find "+smallDisk+" -inum "+b.inode+" -name member -path '*/member'") == "" {
		r.t.Errorf("%s: the survivor's data is gone", what)
	}
}

// completes applies again, in a new process.
func (r *rig) completes(what string) {
	r.t.Helper()
	r.process()
	r.all("the next apply, after "+what, r.update)
	for _, name := range everyone {
		got := strings.Fields(r.ctl(name, "get /registry/pods/a --print-value-only", "get /filling/ --prefix --keys-only",
			"member list --write-out=simple"))
		if len(got) < 31 || got[0] != "saved" {
			r.t.Errorf("%s: %s serves %v", what, name, got)
		}
	}
	r.all("read", r.same)
}

// applyFails expects that every member fails with a problem that says what to do, and returns the cause.
func (r *rig) applyFails(what string) (cause string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), r.limit)
	defer cancel()
	for name, err := range together(r.t, r.specs, func(s Spec) error { return r.update(ctx, s) }, everyone...) {
		var p *problem.Problem
		if !errors.As(err, &p) || p.Next == "" || p.Cause == "" {
			r.t.Fatalf("%s: %s: %v, want a problem with a cause and what to do next", what, name, err)
		}
		cause = p.Cause
	}
	r.t.Logf("  %s: %s", what, cause)
	return cause
}

// fillsWhen is the directory whose appearance fills the disk: when the snapshot, or the survivor's data, is copied.
var fillsWhen = map[bool]string{false: "restoring.part/data/member", true: "restoring.part/copy/member"}

// diskFills leaves no space on the seed's disk while data is staged.
func (r *rig) diskFills() {
	for id, source := range r.accidentSources("full") {
		has := r.belongings(source)
		r.loseFor(source)
		r.request(id, source)
		r.sh("cp1", "nohup sh -c 'cd "+smallDisk+"; until [ -d data-archive/"+fillsWhen[source.Member != ""]+
			" ]; do sleep 0.005; done; until mount -o remount,size=$(($(df --output=used -B1 . | tail -n 1) + 8192)) .; "+
			"do true; done; touch /run/filled' >/dev/null 2>&1 &")
		cause := r.applyFails("a full disk, " + id)
		if !strings.Contains(cause, "o space left on device") && !strings.Contains(cause, "not enough space") {
			r.t.Errorf("%s: the error does not name the disk: %s", id, cause)
		}
		r.sh("cp1", "rm /run/filled")
		if left := r.sh("cp1", "ls "+smallDisk+"/data-archive 2>/dev/null | grep restoring || true"); left != "" {
			r.t.Errorf("%s: it has left %s", id, left)
		}
		r.nothingLost(id, has)
		r.sh("cp1", "mount -o remount,size="+smallDiskSize+" "+smallDisk)
		r.completes(id)
	}
}

// operatorDeath cuts the connections of a process in the middle of a command, as the death of its computer does: the
// command goes on, and nobody gets its answer or does more.
type operatorDeath struct {
	lab   *lab.Lab
	in    string       // "stage", "place", "start"; "" for never
	armed atomic.Value // the address of the machine whose next command it is; "" for none
	dead  atomic.Bool
}

// around cuts the connections as soon as the chosen command runs, and a stage when it has begun to copy.
func (d *operatorDeath) around(address, _ string) (running, ended func()) {
	if !d.armed.CompareAndSwap(address, "") {
		return func() {}, func() {}
	}
	return func() {
		d.dead.Store(true)
		if d.in == "stage" {
			_, _ = d.lab.Machine("cp1").Run(context.Background(), // if it has ended meanwhile, its answer is lost
				"for n in $(seq 1000); do [ ! -d "+smallDisk+"/data-archive/restoring.part/run ] || exit 0; sleep 0.01; done")
		}
		for _, name := range everyone {
			_ = d.lab.Machine(name).HangUp(context.Background()) // the process does nothing more anyway
		}
	}, func() {}
}

// doomed is a machine as that process sees it.
type doomed struct {
	machine.Machine
	d *operatorDeath
}

func (m doomed) reach(in bool, what string) error {
	if m.d.dead.Load() {
		return errDied
	}
	if in && m.d.in == what {
		m.d.armed.Store(m.Address())
	}
	return nil
}

func (m doomed) Observe(ctx context.Context, q host.Query) (host.Facts, error) {
	if err := m.reach(false, ""); err != nil {
		return host.Facts{}, err
	}
	return m.Machine.Observe(ctx, q)
}

func (m doomed) Run(ctx context.Context, c host.Command) (string, error) {
	if err := m.reach(c.Vars["kind"] != "", "stage"); err != nil {
		return "", err
	}
	return m.Machine.Run(ctx, c)
}

func (m doomed) Change(ctx context.Context, c host.Change, a machine.Action) (host.Applied, error) {
	what := map[machine.Verb]string{machine.PlaceRestored: "place", machine.Start: "start"}[a.Verb]
	if err := m.reach(what != "", what); err != nil {
		return host.Applied{}, err
	}
	return m.Machine.Change(ctx, c, a)
}

func (m doomed) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if err := m.reach(false, ""); err != nil {
		return nil, err
	}
	return m.Machine.Dial(ctx, network, addr)
}

// operatorDies ends the process in each part of a restore.
func (r *rig) operatorDies(d *operatorDeath) {
	for _, in := range []string{"stage", "place", "start"} {
		for id, source := range r.accidentSources("dies-in-" + in) {
			has := r.belongings(source)
			r.loseFor(source)
			r.request(id, source)
			r.process()
			alive := r.clusters.machine
			d.in = in
			d.armed.Store("")
			d.dead.Store(false)
			r.clusters.pace.StallTimeout = 5 * time.Second // it hears nothing more
			r.clusters.machine = func(h *host.Host) machine.Machine { return doomed{alive(h), d} }
			cause := r.applyFails(id)
			r.clusters.machine, r.clusters.pace = alive, usualPace
			if d.in = ""; !d.dead.Load() {
				r.t.Fatalf("%s: it did not die: %s", id, cause)
			}
			r.nothingLost(id, has)
			r.completes(id)
		}
	}
}

// storeDies kills the S3 server while a snapshot is fetched.
func storeDies(t *testing.T) {
	r := newStoreRig(t)
	r.credentials("0600", storeSecret)
	r.only([]string{"cp1"}, "create", r.create)
	r.bulky()
	if result, log := r.run(); result != "success" {
		t.Fatalf("the service ended with %s:\n%s", result, log)
	}
	file := filepath.Join(t.TempDir(), "identity")
	if err := os.WriteFile(file, []byte(r.identity.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.lose("cp1")
	s := r.spec
	s.Restore = &machine.Restore{
		ID: "lost", Bucket: machine.NewestInBucket, IdentityFile: file, Bump: machine.BumpAutomatically,
	}
	err := r.fetchCut(s)
	var p *problem.Problem
	if !errors.As(err, &p) || !strings.Contains(p.Cause, "was not fetched from the bucket") || p.Next == "" {
		t.Fatalf("a server that died: %v", err)
	}
	if left := r.sh("cp1", "ls -d /var/lib/etcd-archive/restoring* 2>/dev/null || true"); left != "" {
		t.Errorf("it has left %s", left)
	}
	r.sh("store", "systemctl restart s3")
	r.process()
	if status, err := r.clusters.Update(t.Context(), s); err != nil || !status.Healthy || len(status.Drift) > 0 {
		t.Errorf("the next apply: %+v, %v", status, err)
	}
	if got := strings.TrimSpace(r.ctl("cp1", "get /registry/pods/a --print-value-only")); got != "saved" {
		t.Errorf("it serves %q", got)
	}
}

// fetchCut applies s through a slow line, and kills the server when a part of the snapshot has arrived.
func (r *storeRig) fetchCut(s Spec) error {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 15*time.Minute)
	defer cancel()
	member, store := r.lab.Machine("cp1"), r.lab.Machine("store")
	if err := member.Shape(ctx, "4mbit"); err != nil {
		r.t.Fatal(err)
	}
	killed := make(chan error, 1)
	go func() {
		_, err := member.Run(ctx, "for n in $(seq 3000); do [ \"$(cat /var/lib/etcd-archive/restoring.received* "+
			"2>/dev/null | wc -c)\" -lt 1000000 ] || exit 0; sleep 0.1; done; exit 1")
		if err == nil {
			_, err = store.Run(ctx, "systemctl kill --signal=KILL s3")
		}
		killed <- err
	}()
	begin := time.Now()
	_, err := r.clusters.Update(ctx, s)
	r.t.Logf("  it ended after %s: %v", time.Since(begin).Round(time.Second), err)
	if err := errors.Join(<-killed, member.Shape(ctx, "")); err != nil {
		r.t.Fatal(err)
	}
	return err
}

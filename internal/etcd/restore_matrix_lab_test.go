package etcd

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/etcdtest"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// TestRestoreMatrixOnMachines loses clusters of each release of etcd in each way, with a good snapshot and with damaged
// ones. A damaged snapshot is refused before anything changes. Every other restore ends with three members that serve
// exactly the revisions that the plan named, and a client that was connected before the loss has them too.
func TestRestoreMatrixOnMachines(t *testing.T) {
	testrun.Long(t)
	onMachines(t, "etcdmatrix", "10.60.0.0/24", []string{oldRelease, newRelease}, func(t *testing.T) {
		m := &restoreMatrix{Run: jsonfile.Run[etcdtest.MeasuredRestore]{Date: time.Now().UTC().Truncate(time.Second)}}
		for _, version := range []string{oldRelease, newRelease} {
			t.Run(version, func(t *testing.T) { m.test(t, version) })
		}
		m.write(t)
	})
}

// restoreMatrix is what the test measures.
type restoreMatrix struct {
	jsonfile.Run[etcdtest.MeasuredRestore]
	rig     *rig
	version string
}

// write checks that every cell was measured, and writes them to the file that RESTORES_OUT names.
func (m *restoreMatrix) write(t *testing.T) {
	t.Helper()
	file := os.Getenv("RESTORES_OUT")
	for _, cell := range etcdtest.RestoreCells() {
		if !t.Failed() && !slices.ContainsFunc(m.Results, func(r etcdtest.MeasuredRestore) bool {
			return r.RestoreCell == cell
		}) {
			t.Errorf("not measured: %+v", cell)
		}
	}
	if file == "" || t.Failed() {
		return
	}
	commit, err := build.Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m.Commit = commit
	if err := jsonfile.Write(file, m.Run, 0o644); err != nil {
		t.Fatal(err)
	}
}

// add notes what became of a cell.
func (m *restoreMatrix) add(l loss, source string, r etcdtest.MeasuredRestore) {
	minor := m.version[:strings.LastIndex(m.version, ".")]
	r.RestoreCell = etcdtest.RestoreCell{Etcd: minor, Loss: l.name, Source: source}
	if !slices.Contains(m.Results, r) {
		m.Results = append(m.Results, r)
	}
}

func (m *restoreMatrix) test(t *testing.T, version string) {
	r := newRig(t)
	m.rig, m.version = r, version
	r.limit = 10 * time.Minute
	r.to(version)
	r.all("create "+version, r.create)
	for _, l := range losses {
		if t.Run(l.name, func(t *testing.T) { m.restoresAfter(t, l) }); t.Failed() {
			t.FailNow()
		}
	}
	r.all("destroy", r.delete)
}

// loss is a way to lose a cluster of three.
type loss struct {
	name      string
	survivors []string // the freshest is the last
	sources   []machine.Restore
}

var (
	goodSnapshot = machine.Restore{Snapshot: "/root/good.db"}
	losses       = []loss{
		{etcdtest.NoneSurvives, nil, []machine.Restore{goodSnapshot}},
		{etcdtest.OneSurvives, []string{"cp3"}, []machine.Restore{goodSnapshot, {Member: "cp3"}}},
		{etcdtest.TwoSurvive, []string{"cp1", "cp3"}, []machine.Restore{goodSnapshot, {Member: "cp3"}}},
	}
)

// restoresAfter restores the cluster from each source, after the same loss.
func (m *restoreMatrix) restoresAfter(t *testing.T, l loss) {
	r := m.rig
	outer := r.t
	r.t = t
	defer func() { r.t = outer }()
	for n, source := range l.sources {
		id := strings.ReplaceAll(l.name, " ", "-") + "-" + strconv.Itoa(n)
		i := inform(t, r.specs)
		r.ctl("cp1", "put /registry/masterleases/10.9.9.9 stale", "put /registry/pods/kept "+id,
			"put /registry/pods/removed-later "+id, "put /registry/pods/a saved", "snapshot save /root/good.db")
		saved := r.revision("cp1")
		r.damage()
		r.ctl("cp1", "del /registry/pods/removed-later", "put /registry/pods/written-later x", "put /registry/pods/a late")
		i.converges(t)
		before := r.loseBut(l.survivors)

		m.refusesDamaged(l, id)
		want, planned, from := "saved", saved, etcdtest.GoodSnapshot
		if source.Member != "" {
			want, planned, from = "latest", before, etcdtest.Survivor
			r.refusesOlder(id, l.survivors)
		}
		r.request(id, source)
		if got := r.plannedRevision(source, l.survivors); got != planned {
			t.Errorf("the plan says up to revision %d, want %d", got, planned)
		}
		r.healWhenRetired(l.survivors)
		began := time.Now()
		r.all("restore "+source.Source(), r.update)
		took := time.Since(began)
		if newest := i.newest(t); newest != planned {
			t.Errorf("the newest value is of revision %d, and the plan said %d", newest, planned)
		}
		behind := i.converges(t)
		m.add(l, from, etcdtest.MeasuredRestore{
			Seconds: took.Seconds(), LostRevisions: before - planned, Informer: behind.Seconds(),
		})
		r.wantData(want, before)
		i.converges(t)
		if source.Member != "" {
			r.unchanged()
		}
	}
}

// damage makes damaged copies of the snapshot.
func (r *rig) damage() {
	r.t.Helper()
	r.sh("cp1", "cp /root/good.db /root/flipped.db; byte=$(od -An -tu1 -j20000 -N1 /root/good.db); "+
		`printf "\\$(printf %o $((byte ^ 1)))" | dd of=/root/flipped.db bs=1 seek=20000 conv=notrunc 2>/dev/null; `+
		"head -c -1 /root/good.db >/root/short.db; head -c -32 /root/good.db >/root/bare.db")
}

// refusesDamaged expects that each damaged copy is refused.
func (m *restoreMatrix) refusesDamaged(l loss, id string) {
	r := m.rig
	r.t.Helper()
	for _, damaged := range []struct{ file, source, reason string }{
		{"bare", etcdtest.BareSnapshot, "has no integrity hash"},
		{"flipped", etcdtest.FlippedSnapshot, "is corrupt"},
		{"short", etcdtest.TruncatedSnapshot, "is incomplete"},
	} {
		r.request(id+"-"+damaged.file, machine.Restore{Snapshot: "/root/" + damaged.file + ".db"})
		r.refusesRestore("/root/" + damaged.file + ".db " + damaged.reason)
		m.add(l, damaged.source, etcdtest.MeasuredRestore{Refused: true})
	}
}

// refusesOlder expects that no survivor is used of which another one knows more.
func (r *rig) refusesOlder(id string, survivors []string) {
	r.t.Helper()
	freshest := len(survivors) - 1
	for _, name := range survivors[:freshest] {
		r.request(id+"-older", machine.Restore{Member: name})
		r.refusesRestore("knows less of the cluster's log than " + survivors[freshest])
	}
}

// loseBut makes all other members lose their data, and returns the newest revision that was served. Of two survivors,
// the first one misses the last write, and they do not reach each other: they would have a quorum.
func (r *rig) loseBut(survivors []string) int64 {
	r.t.Helper()
	lost := slices.DeleteFunc(slices.Clone(everyone), func(name string) bool { return slices.Contains(survivors, name) })
	if len(survivors) == 2 {
		r.sh(survivors[0], "systemctl stop etcd")
	}
	r.ctl("cp2", "put /registry/pods/a latest")
	before := r.revision("cp2")
	for _, name := range survivors[max(0, len(survivors)-1):] { // it has seen that the write is committed
		r.awaitRevision(name, before)
	}
	r.lose(lost...)
	if len(survivors) == 2 {
		r.cutPeers(survivors[0])
	}
	return before
}

// awaitRevision waits until a member has a revision.
func (r *rig) awaitRevision(name string, revision int64) {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); r.revision(name) < revision; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("%s has not got revision %d", name, revision)
		}
	}
}

// cutPeers drops what the member of a machine sends to other members, and what they send to it.
func (r *rig) cutPeers(name string) {
	r.t.Helper()
	r.sh(name, "for c in INPUT OUTPUT; do iptables -I $c -p tcp --dport 2380 -j DROP; done")
}

// healPeers ends cutPeers.
const healPeers = "for c in INPUT OUTPUT; do iptables -D $c -p tcp --dport 2380 -j DROP; done"

// healWhenRetired lets two survivors reach each other as soon as the older one no longer has its data.
func (r *rig) healWhenRetired(survivors []string) {
	r.t.Helper()
	if len(survivors) < 2 {
		return
	}
	r.sh(survivors[0], "export was=$(stat -c %i /var/lib/etcd/member)\n"+
		`nohup sh -euc 'while [ "$(stat -c %i /var/lib/etcd/member 2>/dev/null || true)" = "$was" ]; do sleep 0.1; done; `+
		healPeers+`' >/dev/null 2>&1 &`)
}

var (
	plannedUpTo     = regexp.MustCompile(`up to revision (\d+)\.`)
	plannedSurvivor = regexp.MustCompile(`(?m)^cp3 .* (\d+)$`)
)

// plannedRevision returns the revision up to which the plan says that data is kept.
func (r *rig) plannedRevision(source machine.Restore, survivors []string) int64 {
	r.t.Helper()
	plan, err := r.clusters.PreviewRestore(r.t.Context(), r.specs["cp1"])
	if err != nil {
		r.t.Fatal(err)
	}
	form := plannedUpTo
	if source.Member != "" {
		form = plannedSurvivor
	} else if keeps := strings.Contains(plan, "Member cp3 still has data"); keeps != (len(survivors) > 0) {
		r.t.Errorf("with the survivors %v, the plan is\n%s", survivors, plan)
	}
	parts := form.FindStringSubmatch(plan)
	if parts == nil {
		r.t.Fatalf("the plan names no revision:\n%s", plan)
	}
	revision, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		r.t.Fatal(err)
	}
	return revision
}

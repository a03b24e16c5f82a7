package etcd

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// TestRestoreMatrixOnMachines loses clusters of each release of etcd in each way, with a good snapshot and with damaged
// ones. A damaged snapshot is refused before anything changes. Every other restore ends with three members that serve
// exactly the revisions that the plan named, and a client that was connected before the loss has them too.
func TestRestoreMatrixOnMachines(t *testing.T) {
	testrun.Long(t)
	onMachines(t, "etcdmatrix", "10.60.0.0/24", []string{oldRelease, newRelease}, func(t *testing.T) {
		for _, version := range []string{oldRelease, newRelease} {
			t.Run(version, func(t *testing.T) { testRestoreMatrix(t, version) })
		}
	})
}

func testRestoreMatrix(t *testing.T, version string) {
	r := newRig(t)
	r.limit = 10 * time.Minute
	r.to(version)
	r.all("create "+version, r.create)
	for _, l := range losses {
		if t.Run(l.name, func(t *testing.T) { r.restoresAfter(t, l) }); t.Failed() {
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
		{"none survives", nil, []machine.Restore{goodSnapshot}},
		{"one survives", []string{"cp3"}, []machine.Restore{goodSnapshot, {Member: "cp3"}}},
		{"two of different age survive", []string{"cp1", "cp3"}, []machine.Restore{goodSnapshot, {Member: "cp3"}}},
	}
)

// restoresAfter restores the cluster from each source, after the same loss.
func (r *rig) restoresAfter(t *testing.T, l loss) {
	outer := r.t
	r.t = t
	defer func() { r.t = outer }()
	for n, source := range l.sources {
		id := strings.ReplaceAll(l.name, " ", "-") + "-" + strconv.Itoa(n)
		i := r.inform()
		r.ctl("cp1", "put /registry/masterleases/10.9.9.9 stale", "put /registry/pods/kept "+id,
			"put /registry/pods/removed-later "+id, "put /registry/pods/a saved", "snapshot save /root/good.db")
		saved := r.revision("cp1")
		r.damage()
		r.ctl("cp1", "del /registry/pods/removed-later", "put /registry/pods/written-later x", "put /registry/pods/a late")
		i.converges(t)
		before := r.loseBut(l.survivors)

		r.refusesDamaged(id)
		want, planned := "saved", saved
		if source.Member != "" {
			want, planned = "latest", before
			r.refusesOlder(id, l.survivors)
		}
		r.request(id, source)
		if got := r.plannedRevision(source, l.survivors); got != planned {
			t.Errorf("the plan says up to revision %d, want %d", got, planned)
		}
		r.healWhenRetired(l.survivors)
		r.all("restore "+source.Source(), r.update)
		if newest := i.newest(t); newest != planned {
			t.Errorf("the newest value is of revision %d, and the plan said %d", newest, planned)
		}
		i.converges(t)
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
func (r *rig) refusesDamaged(id string) {
	r.t.Helper()
	damaged := map[string]string{"flipped": "is corrupt", "short": "is incomplete", "bare": "has no integrity hash"}
	for _, file := range slices.Sorted(maps.Keys(damaged)) {
		r.request(id+"-"+file, machine.Restore{Snapshot: "/root/" + file + ".db"})
		r.refusesRestore("/root/" + file + ".db " + damaged[file])
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

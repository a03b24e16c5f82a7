package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/poll"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// undrained is the outage of a member whose API server cannot be drained.
type undrained struct{ announced }

var errUndrained = errors.New("it is the only one in rotation")

func (u undrained) Begins(ctx context.Context) error {
	return errors.Join(u.announced.Begins(ctx), errUndrained)
}

// nameAt returns the name of the member on a machine.
func (f *fleet) nameAt(h *host.Host) string {
	for _, name := range []string{"cp1", "cp2", "cp3"} {
		if f.address(name) == h.Address() {
			return name
		}
	}
	return h.Address()
}

func TestNoSpaceIsRepaired(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.three(4 << 20)
	c := f.client(specs["cp1"])
	acknowledged := c.fill("cp2", func(i int) string { return fmt.Sprint("key", i%3) })
	full := f.view(specs["cp1"]).Raised(membership.AlarmNoSpace)[0].Name // not always the member that received the write
	status, err := f.clusters.Read(f.context(), specs[full])
	if words := strings.Join(status.Drift, "\n"); err != nil ||
		!strings.Contains(words, full+": alarm NOSPACE is raised: the database size is") ||
		!strings.Contains(words, "of a quota of 4 MiB") {
		t.Fatalf("drift of a full database: %q, %v", words, err)
	}
	var without []string
	for _, m := range f.view(specs["cp1"]).WithoutSpace() {
		without = append(without, m.Name)
	}
	if slices.Sort(without); len(without) < 2 {
		t.Fatalf("only %v have no space", without)
	}
	log, open := &outageLog{}, 0
	for name, s := range specs {
		s.Outage = announced{log, name}
		s.OutageOf = func(h *host.Host) (Outage, func()) {
			open++
			return announced{log, f.nameAt(h)}, func() { open-- }
		}
		specs[name] = s
	}
	f.repair(specs)
	f.wantStarts(1)
	// A member without space and without an alarm was repaired as well, while its API server was out of rotation.
	slices.Sort(log.order)
	if order := slices.Compact(log.order); !slices.Equal(order, without) || log.most != 1 || log.now != 0 || open != 0 {
		t.Errorf("announced %v, want %v; %d at once, %d left, %d open", order, without, log.most, log.now, open)
	}
	if v := f.view(specs["cp1"]); len(v.WithoutSpace()) > 0 {
		t.Errorf("%s has no room:\n%s", v.WithoutSpace()[0].Name, v)
	}
	c.wantWrites(specs)
	for name := range specs {
		c.wantKeys(name, acknowledged)
	}
}

// TestNoSpaceOfANeighbour: a neighbour without space whose API server cannot leave rotation is left as it is, and the
// member with the alarm is repaired all the same.
func TestNoSpaceOfANeighbour(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.three(4 << 20)
	f.client(specs["cp1"]).fill("cp2", func(i int) string { return fmt.Sprint("key", i%3) })
	v := f.view(specs["cp1"])
	without := len(v.WithoutSpace())
	s, log, open := specs[v.Raised(membership.AlarmNoSpace)[0].Name], &outageLog{}, 0
	s.OutageOf = func(h *host.Host) (Outage, func()) {
		open++
		return undrained{announced{log, f.nameAt(h)}}, func() { open-- }
	}
	if _, err := f.clusters.Update(f.context(), s); err != nil || log.now != 0 || open != 0 {
		t.Errorf("%v; %d outages are left, %d open", err, log.now, open)
	}
	if now := f.view(s); without < 2 || len(now.WithoutSpace()) != without-1 ||
		len(now.Raised(membership.AlarmNoSpace)) > 0 {
		t.Errorf("of %d members without space, there are\n%s", without, now)
	}
}

// TestNoSpaceIsRepairedAfterACompaction: somebody else has dropped the history, so there
// is none left to drop, and etcd still counts its pages as in use.
func TestNoSpaceIsRepairedAfterACompaction(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.three(4 << 20)
	c := f.client(specs["cp1"])
	acknowledged := c.fill("cp2", func(i int) string { return fmt.Sprint("key", i%3) })
	if dropped, err := c.clients.Compact(f.context(), f.address("cp1")); err != nil || !dropped {
		t.Fatalf("compaction: %v, %v", dropped, err)
	}
	f.repair(specs)
	f.wantStarts(1)
	c.wantWrites(specs)
	for name := range specs {
		c.wantKeys(name, acknowledged)
	}
}

// TestNoSpaceWithUnknownVoters: a member that was imported alone is not repaired without the lease on the other voters'
// machines, and the refusal says where they are to be listed.
func TestNoSpaceWithUnknownVoters(t *testing.T) {
	t.Parallel()
	f := newSmallFleet(t)
	specs := f.specs("cp1", "cp2")
	setQuota(specs, 4<<20)
	f.create(specs, "cp1", "cp2")
	c := f.client(specs["cp1"])
	acknowledged := c.fill("cp2", func(i int) string { return fmt.Sprint("key", i%3) })
	full := f.view(specs["cp1"]).Raised(membership.AlarmNoSpace)[0].Name
	alone := specs[full]
	alone.Peers = map[string]*host.Host{full: alone.Host}
	f.clusters = f.coordinator()
	_, err := f.clusters.Update(f.context(), alone)
	if next := nextOf(err); !strings.Contains(next, "add them to peers") {
		t.Fatalf("%v; next step %q", err, next)
	}
	for name := range specs {
		if strings.Contains(nextOf(err), fmt.Sprintf("%q at %q", name, f.address(name))) != (name != full) {
			t.Errorf("of %s, the next step says %q", name, nextOf(err))
		}
	}
	if raised := f.view(alone).Raised(membership.AlarmNoSpace); len(raised) == 0 {
		t.Error("the alarm was disarmed")
	}
	f.clusters = f.coordinator()
	f.repair(specs)
	c.wantWrites(specs)
	for name := range specs {
		c.wantKeys(name, acknowledged)
	}
}

func TestNoSpaceThatStaysIsRefused(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.three(4 << 20)
	c := f.client(specs["cp1"])
	acknowledged := map[string]string{}
	var full Spec
	var err error
	for err == nil { // the first defragmentations may reclaim some space
		keys := len(acknowledged)
		maps.Copy(acknowledged, c.fill("cp1", func(i int) string { return fmt.Sprint("key", keys+i) }))
		// etcd compares the size of its last commit, up to 100 ms ago.
		if len(acknowledged) > 1000 {
			t.Fatal("60 MiB fit into 4 MiB")
		}
		full = specs[f.view(specs["cp1"]).Raised(membership.AlarmNoSpace)[0].Name]
		_, err = f.clusters.Update(f.context(), full)
	}
	for _, want := range []string{
		"does not fit into its quota", "of a quota of 4 MiB", "quota-backend-bytes",
		"PEER URL",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in\n%v", want, err)
		}
	}
	if _, err := f.clusters.Update(f.context(), full); err == nil ||
		!strings.Contains(err.Error(), "does not fit into its quota") {
		t.Errorf("another Update is not refused: %v", err)
	}
	if v := f.view(specs["cp1"]); len(v.Raised(membership.AlarmNoSpace)) == 0 {
		t.Fatalf("the alarm was disarmed without room:\n%s", v)
	}
	// One of the remedies: the members are restarted first, and then there is space.
	setQuota(specs, 64<<20)
	f.repair(specs)
	f.wantStarts(2)
	c.wantWrites(specs)
	for name := range specs {
		c.wantKeys(name, acknowledged)
	}
}

func TestCorruptMemberIsReplaced(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.three(0)
	c := f.client(specs["cp1"])
	acknowledged := map[string]string{}
	for i := range 50 {
		acknowledged[fmt.Sprint("key", i)] = fmt.Sprint(i)
		if err := c.put("cp1", fmt.Sprint("key", i), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	before := f.calm(specs["cp1"])
	leader := leaderOf(before)
	f.damage(leader)
	c.raise("cp1", membership.Alarm{Member: before.Leader, Name: membership.AlarmCorrupt})
	if err := c.put("cp1", "refused", ""); !client.SameError(err, rpctypes.ErrCorrupt) {
		t.Fatalf("write beside a CORRUPT member: %v", err)
	}
	ctx, cancel := context.WithCancel(f.context())
	cut, o := specs[leader], &interrupted{cancel: cancel}
	cut.Outage = o
	if _, err := f.clusters.Update(ctx, cut); err == nil || o.begins.Load() != 1 || o.ends.Load() != 1 || o.dead.Load() {
		t.Errorf("%v: the outage of the interrupted replacement began %d times, and ended %d times", err, o.begins.Load(),
			o.ends.Load())
	}
	f.repair(specs)
	v := f.calm(specs["cp1"])
	after, _ := v.ByName(leader)
	if roster(v) != "cp1 cp2 cp3" || after.ID == before.Leader || v.Leader == before.Leader {
		t.Errorf("%s was not replaced:\n%s", leader, v)
	}
	if archived, err := filepath.Glob(f.machine(leader).at(layout.ArchiveRoot(layout.DefaultDataDir)) +
		"/*/*/member"); err != nil || len(archived) != 1 {
		t.Errorf("the data of %s was not archived: %v, %v", leader, archived, err)
	}
	c.wantWrites(specs)
	for name := range specs {
		c.wantKeys(name, acknowledged)
		if _, there := c.keys(name)["smuggled"]; there {
			t.Errorf("%s has the damaged data", name)
		}
	}
	if err := requireSameData(f.context(), c.clients, f.clusters.pace, v.Members); err != nil {
		t.Error(err)
	}
}

func TestWronglyAccusedMemberIsKept(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.three(0)
	c := f.client(specs["cp1"])
	if err := c.put("cp1", "key", "value"); err != nil {
		t.Fatal(err)
	}
	v := f.calm(specs["cp1"])
	accused, _ := v.ByName("cp2")
	f.damage("cp3") // and not cp2
	if err := c.put("cp1", "key", "another"); err != nil {
		t.Fatal(err)
	}
	c.raise("cp1", membership.Alarm{Member: accused.ID, Name: membership.AlarmCorrupt})
	f.wantRefused(specs, v, "cannot be determined which member has the correct data")
}

func TestCorruptMajorityIsRefused(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.three(0)
	v := f.calm(specs["cp1"])
	c := f.client(specs["cp1"])
	for _, name := range []string{"cp2", "cp3"} {
		m, _ := v.ByName(name)
		c.raise("cp1", membership.Alarm{Member: m.ID, Name: membership.AlarmCorrupt})
	}
	f.wantRefused(specs, v, "CORRUPT is raised for cp")
	if err := f.clusters.Delete(f.context(), specs["cp3"], DeleteOptions{}); err == nil || !problem.Untouched(err) {
		t.Errorf("delete of one of two CORRUPT members: %v", err)
	}
	// Destroying the whole cluster is not blocked.
	for name, err := range together(t, specs, func(s Spec) error {
		return f.clusters.Delete(f.context(), s, DeleteOptions{})
	}, "cp1", "cp2", "cp3") {
		if err != nil {
			t.Errorf("delete %s: %v", name, err)
		}
		f.machine(name).wantClean()
	}
}

func TestUnknownCorruptMemberIsRefused(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.three(0)
	v := f.calm(specs["cp1"])
	f.client(specs["cp1"]).raise("cp1", membership.Alarm{Member: 0, Name: membership.AlarmCorrupt})
	f.wantRefused(specs, v, "etcd cannot determine for which member")
}

func TestOrphanedAlarmsAreDisarmed(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.three(0)
	c := f.client(specs["cp1"])
	c.raise("cp1", membership.Alarm{Member: 0xdead, Name: membership.AlarmCorrupt})
	c.raise("cp1", membership.Alarm{Member: 0xdead, Name: membership.AlarmNoSpace})
	status, err := f.clusters.Read(f.context(), specs["cp3"])
	if words := strings.Join(status.Drift, "\n"); err != nil ||
		!strings.Contains(words, "cp3: alarm CORRUPT is raised for member dead, which the cluster no longer lists") {
		t.Fatalf("drift of an orphaned alarm: %q, %v", words, err)
	}
	if _, err := f.clusters.Update(f.context(), specs["cp3"]); err != nil {
		t.Fatal(err)
	}
	f.wantStarts(1)
	c.wantWrites(specs)
}

func TestCorruptMemberLeaves(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.three(0)
	v := f.calm(specs["cp1"])
	c := f.client(specs["cp1"])
	c.raise("cp1", membership.Alarm{Member: v.Leader, Name: membership.AlarmCorrupt})
	leader := leaderOf(v)
	stays := slices.DeleteFunc([]string{"cp1", "cp2", "cp3"}, func(name string) bool { return name == leader })
	if err := f.clusters.Delete(f.context(), specs[stays[0]], DeleteOptions{}); err == nil ||
		!strings.Contains(err.Error(), "CORRUPT is raised for "+leader) || !problem.Untouched(err) {
		t.Errorf("delete of a healthy member beside a CORRUPT one: %v", err)
	}
	if err := f.clusters.Delete(f.context(), specs[leader], DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.machine(leader).wantClean()
	delete(specs, leader)
	c.wantWrites(specs)
}

func TestCutOffReplacementResumes(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.three(0)
	c := f.client(specs["cp1"])
	v := f.calm(specs["cp1"])
	m := v.Members[slices.IndexFunc(v.Members, func(m membership.Member) bool { return m.ID != v.Leader })]
	c.raise("cp1", membership.Alarm{Member: m.ID, Name: membership.AlarmCorrupt})
	// The process ends right after the removal, so the alarm has no member.
	if _, err := poll.Until(f.context(), f.clusters.pace.Poll, f.clusters.pace.StallTimeout, func() (bool, error) {
		err := c.clients.ViaVoter(f.context(), v, m.ID, func(address string) error {
			return c.clients.Remove(f.context(), address, m.ID)
		})
		return err == nil, nil // etcd refuses until all have been connected for 5 s
	}); err != nil {
		t.Fatal(err)
	}
	f.clusters = f.coordinator()
	status, err := f.clusters.Read(f.context(), specs[m.Name])
	if err != nil || !strings.Contains(strings.Join(status.Drift, "\n"), "no longer lists this member") {
		t.Fatalf("read of the removed member: %q, %v", status.Drift, err)
	}
	if status, err = f.clusters.Update(f.context(), specs[m.Name]); err != nil || !status.Healthy ||
		len(status.Drift) > 0 {
		t.Fatalf("update of the removed member: %+v, %v", status, err)
	}
	f.wantRoster(specs["cp1"], "cp1 cp2 cp3")
	c.wantWrites(specs)
}

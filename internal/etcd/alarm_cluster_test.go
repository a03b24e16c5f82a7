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

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/lease"
	"google.golang.org/grpc"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// client speaks with the members as an API server or etcdctl would.
type client struct {
	f    *fleet
	conv *conversation
}

func (f *fleet) client(s Spec) client {
	f.t.Helper()
	conv, err := f.clusters.of(s).converse(s)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(conv.Close)
	return client{f, conv}
}

// try calls a member until it takes a call or refuses it for good.
func (c client) try(name string, call func(context.Context, *grpc.ClientConn) error) error {
	ctx := c.f.context()
	for {
		err := c.conv.call(ctx, c.f.address(name), changeTimeout, call)
		if err == nil || !transient(err) || ctx.Err() != nil {
			return err
		}
	}
}

func (c client) put(name, key, value string) error {
	return c.try(name, func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := pb.NewKVClient(conn).Put(ctx, &pb.PutRequest{Key: []byte(key), Value: []byte(value)})
		return err
	})
}

// keys is what one member itself has.
func (c client) keys(name string) map[string]string {
	c.f.t.Helper()
	keys := map[string]string{}
	err := c.try(name, func(ctx context.Context, conn *grpc.ClientConn) error {
		answer, err := pb.NewKVClient(conn).Range(ctx, &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, Serializable: true}, grpc.MaxCallRecvMsgSize(1<<26))
		if err == nil {
			for _, kv := range answer.Kvs {
				keys[string(kv.Key)] = string(kv.Value)
			}
		}
		return err
	})
	if err != nil {
		c.f.t.Fatal(err)
	}
	return keys
}

// raise does what etcd does when it finds something wrong.
func (c client) raise(name string, a Alarm) {
	c.f.t.Helper()
	err := c.try(name, func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := pb.NewMaintenanceClient(conn).Alarm(ctx, &pb.AlarmRequest{
			Action: pb.AlarmRequest_ACTIVATE, MemberID: a.Member, Alarm: pb.AlarmType(pb.AlarmType_value[a.Name]),
		})
		return err
	})
	if err != nil {
		c.f.t.Fatal(err)
	}
}

// fill puts 64 KiB under one key after the other until the quota refuses it,
// and returns what was acknowledged.
func (c client) fill(name string, key func(i int) string) map[string]string {
	c.f.t.Helper()
	acknowledged := map[string]string{}
	for i := range 1000 {
		value := fmt.Sprintf("%064d", i) + strings.Repeat("x", 1<<16)
		err := c.put(name, key(i), value)
		if sameError(err, rpctypes.ErrNoSpace) {
			// etcd may have applied it nevertheless (quotaApplierV3.Put).
			delete(acknowledged, key(i))
			return acknowledged
		}
		if err != nil {
			c.f.t.Fatal(err)
		}
		acknowledged[key(i)] = value
	}
	c.f.t.Fatal("the quota was never reached")
	return nil
}

func (c client) wantKeys(name string, want map[string]string) {
	c.f.t.Helper()
	have := c.keys(name)
	for key, value := range want {
		if have[key] != value {
			c.f.t.Errorf("%s has lost %s, or has an older value", name, key)
		}
	}
}

// wantWrites checks that writes are accepted by every member, and no alarm is left.
func (c client) wantWrites(specs map[string]Spec) {
	c.f.t.Helper()
	for name, s := range specs {
		if err := c.put(name, "again-"+name, "written"); err != nil {
			c.f.t.Errorf("write through %s: %v", name, err)
		}
		status, err := c.f.clusters.Read(c.f.context(), s)
		if err != nil || !status.Healthy || len(status.Drift) > 0 {
			c.f.t.Errorf("read %s: %+v, %v", name, status, err)
		}
	}
}

// update runs Update for the members whose Read shows drift, as Terraform does.
func (f *fleet) update(specs map[string]Spec) map[string]error {
	f.t.Helper()
	var names []string
	for name, s := range specs {
		status, err := f.clusters.Read(f.context(), s)
		if err != nil {
			f.t.Fatal(err)
		}
		if len(status.Drift) > 0 {
			names = append(names, name)
			f.t.Log(strings.Join(status.Drift, "\n"))
		}
	}
	return together(f.t, specs, func(s Spec) error {
		_, err := f.clusters.Update(f.context(), s)
		return err
	}, names...)
}

func (f *fleet) mend(specs map[string]Spec) {
	f.t.Helper()
	errs := f.update(specs)
	if len(errs) == 0 {
		f.t.Fatal("no member shows drift")
	}
	for name, err := range errs {
		if err != nil {
			f.t.Fatalf("update %s: %v", name, err)
		}
	}
}

// three creates a cluster of three with a quota (0: etcd's own).
func (f *fleet) three(quota int) map[string]Spec {
	f.t.Helper()
	specs := f.specs("cp1", "cp2", "cp3")
	if quota > 0 {
		setQuota(specs, quota)
	}
	f.create(specs, "cp1", "cp2", "cp3")
	f.calm(specs["cp1"])
	return specs
}

func setQuota(specs map[string]Spec, quota int) {
	for name, s := range specs {
		s.ExtraArgs = map[string]string{"quota-backend-bytes": fmt.Sprint(quota)}
		specs[name] = s
	}
}

func (f *fleet) wantStarts(want int) {
	f.t.Helper()
	for _, m := range f.machines {
		if m.starts != want {
			f.t.Errorf("%s was started %d times, want %d", m.address, m.starts, want)
		}
	}
}

func TestNoSpaceIsMended(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.three(4 << 20)
	c := f.client(specs["cp1"])
	acknowledged := c.fill("cp2", func(i int) string { return fmt.Sprint("key", i%3) })
	full := f.view(specs["cp1"]).raised(alarmSpace)[0].Name // not always the one that was asked
	status, err := f.clusters.Read(f.context(), specs[full])
	if words := strings.Join(status.Drift, "\n"); err != nil || !strings.Contains(words, full+": alarm NOSPACE is raised: the database has") || !strings.Contains(words, "of a quota of 4 MiB") {
		t.Fatalf("drift of a full database: %q, %v", words, err)
	}
	f.mend(specs)
	f.wantStarts(1)
	c.wantWrites(specs)
	for name := range specs {
		c.wantKeys(name, acknowledged)
	}
	// Whoever was as full and had no alarm has room as well.
	if v := f.view(specs["cp1"]); len(v.cramped()) > 0 {
		t.Errorf("%s has no room:\n%s", v.cramped()[0].Name, v)
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
	for err == nil { // the first defragmentations may gain some room
		keys := len(acknowledged)
		maps.Copy(acknowledged, c.fill("cp1", func(i int) string { return fmt.Sprint("key", keys+i) }))
		if len(acknowledged) > 100 {
			t.Fatal("6 MiB fit into 4 MiB")
		}
		full = specs[f.view(specs["cp1"]).raised(alarmSpace)[0].Name]
		_, err = f.clusters.Update(f.context(), full)
	}
	for _, want := range []string{"does not fit its quota", "of a quota of 4 MiB", "quota-backend-bytes", "PEER URL"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in\n%v", want, err)
		}
	}
	if _, err := f.clusters.Update(f.context(), full); err == nil || !problem.Untouched(err) {
		t.Errorf("refused again after something was done again: %v", err)
	}
	if v := f.view(specs["cp1"]); len(v.raised(alarmSpace)) == 0 {
		t.Fatalf("the alarm was disarmed without room:\n%s", v)
	}
	// One of the ways out: the members are restarted first, and then there is room.
	setQuota(specs, 64<<20)
	f.mend(specs)
	f.wantStarts(2)
	c.wantWrites(specs)
	for name := range specs {
		c.wantKeys(name, acknowledged)
	}
}

// damage changes the data of one member behind the log's back.
func (f *fleet) damage(name string) {
	f.machine(name).server.Server.KV().Put([]byte("smuggled"), []byte("in"), lease.NoLease)
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
	leader := before.leader()
	f.damage(leader)
	c.raise("cp1", Alarm{before.Leader, alarmCorrupt})
	if err := c.put("cp1", "refused", ""); !sameError(err, rpctypes.ErrCorrupt) {
		t.Fatalf("write beside a CORRUPT member: %v", err)
	}
	f.mend(specs)
	v := f.calm(specs["cp1"])
	after, _ := v.named(leader)
	if v.roster() != "cp1 cp2 cp3" || after.ID == before.Leader || v.Leader == before.Leader {
		t.Errorf("%s was not replaced:\n%s", leader, v)
	}
	if archived, err := filepath.Glob(f.machine(leader).at(archiveRoot(DefaultDataDir)) + "/*/*/member"); err != nil || len(archived) != 1 {
		t.Errorf("the data of %s was not archived: %v, %v", leader, archived, err)
	}
	c.wantWrites(specs)
	for name := range specs {
		c.wantKeys(name, acknowledged)
		if _, there := c.keys(name)["smuggled"]; there {
			t.Errorf("%s has the damaged data", name)
		}
	}
	if err := c.conv.vouched(f.context(), f.clusters.pace, v.Members); err != nil {
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
	accused, _ := v.named("cp2")
	f.damage("cp3") // and not cp2
	if err := c.put("cp1", "key", "another"); err != nil {
		t.Fatal(err)
	}
	c.raise("cp1", Alarm{accused.ID, alarmCorrupt})
	f.wantRefused(specs, v, "cannot be told whose data is right")
}

// wantRefused checks that the Updates of all members that show drift are
// refused with these words, and that nothing changed.
func (f *fleet) wantRefused(specs map[string]Spec, before View, words ...string) {
	f.t.Helper()
	ids := func(v View) (ids []uint64) {
		for _, m := range v.Members {
			ids = append(ids, m.ID)
		}
		return ids
	}
	errs := f.update(specs)
	if len(errs) == 0 {
		f.t.Error("no member shows drift")
	}
	for name, err := range errs {
		if err == nil || !problem.Untouched(err) {
			f.t.Errorf("update %s: %v", name, err)
			continue
		}
		for _, want := range append(words, "etcdctl endpoint hashkv", "PEER URL") {
			if !strings.Contains(err.Error(), want) {
				f.t.Errorf("update %s: %q is not in\n%v", name, want, err)
			}
		}
	}
	if after := f.view(specs["cp1"]); !slices.Equal(ids(after), ids(before)) || after.Leader != before.Leader {
		f.t.Errorf("the members changed:\n%s", after)
	}
	f.wantStarts(1)
}

func TestCorruptMajorityIsRefused(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.three(0)
	v := f.calm(specs["cp1"])
	c := f.client(specs["cp1"])
	for _, name := range []string{"cp2", "cp3"} {
		m, _ := v.named(name)
		c.raise("cp1", Alarm{m.ID, alarmCorrupt})
	}
	f.wantRefused(specs, v, "CORRUPT is raised for cp")
	if err := f.clusters.Delete(f.context(), specs["cp3"], DeleteOptions{}); err == nil || !problem.Untouched(err) {
		t.Errorf("delete of one of two CORRUPT members: %v", err)
	}
	// Who gives the whole cluster up is not held back.
	for name, err := range together(t, specs, func(s Spec) error { return f.clusters.Delete(f.context(), s, DeleteOptions{}) }, "cp1", "cp2", "cp3") {
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
	f.client(specs["cp1"]).raise("cp1", Alarm{0, alarmCorrupt})
	f.wantRefused(specs, v, "etcd cannot tell for which member")
}

func TestOrphanedAlarmsAreDisarmed(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.three(0)
	c := f.client(specs["cp1"])
	c.raise("cp1", Alarm{0xdead, alarmCorrupt})
	c.raise("cp1", Alarm{0xdead, alarmSpace})
	status, err := f.clusters.Read(f.context(), specs["cp3"])
	if words := strings.Join(status.Drift, "\n"); err != nil || !strings.Contains(words, "cp3: alarm CORRUPT is raised for member dead, which the cluster no longer lists") {
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
	c.raise("cp1", Alarm{v.Leader, alarmCorrupt})
	leader := v.leader()
	stays := slices.DeleteFunc([]string{"cp1", "cp2", "cp3"}, func(name string) bool { return name == leader })
	if err := f.clusters.Delete(f.context(), specs[stays[0]], DeleteOptions{}); err == nil || !strings.Contains(err.Error(), "CORRUPT is raised for "+leader) || !problem.Untouched(err) {
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
	m := v.Members[slices.IndexFunc(v.Members, func(m Member) bool { return m.ID != v.Leader })]
	c.raise("cp1", Alarm{m.ID, alarmCorrupt})
	// The process ends right after the removal: the alarm has no member then.
	if _, err := until(f.context(), f.clusters.pace.Poll, f.clusters.pace.Serving, func() (bool, error) {
		err := c.conv.viaVoter(f.context(), v, m.ID, func(address string) error { return c.conv.remove(f.context(), address, m.ID) })
		return err == nil, nil // etcd refuses until all have been connected for 5 s
	}); err != nil {
		t.Fatal(err)
	}
	f.clusters = f.coordinator()
	if _, err := f.clusters.Read(f.context(), specs[m.Name]); !errors.Is(err, ErrGone) {
		t.Fatalf("read of the removed member: %v", err)
	}
	f.create(specs, m.Name)
	f.wantRoster(specs["cp1"], "cp1 cp2 cp3")
	c.wantWrites(specs)
}

package etcd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/lease"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// etcdctl talks to the members as an API server or etcdctl does.
type etcdctl struct {
	f       *fleet
	clients *client.Clients
}

func (f *fleet) client(s Spec) etcdctl {
	f.t.Helper()
	clients, err := f.clusters.of(s).connect(s)
	if err != nil {
		f.t.Fatal(err)
	}
	clients.MaxAnswer = client.MaxPage
	f.t.Cleanup(clients.Close)
	return etcdctl{f, clients}
}

// try calls a member until the call succeeds or is refused permanently.
func (c etcdctl) try(name string, call func(context.Context, *clientv3.Client) error) error {
	ctx := c.f.context()
	for {
		err := c.clients.Call(ctx, c.f.address(name), client.ChangeTimeout, call)
		if err == nil || !client.Transient(err) || ctx.Err() != nil {
			return err
		}
	}
}

func (c etcdctl) put(name, key, value string) error {
	return c.try(name, func(ctx context.Context, member *clientv3.Client) error {
		_, err := member.Put(ctx, key, value)
		return err
	})
}

// keys returns the keys in one member's own data.
func (c etcdctl) keys(name string) map[string]string {
	c.f.t.Helper()
	keys := map[string]string{}
	err := c.try(name, func(ctx context.Context, member *clientv3.Client) error {
		answer, err := member.Get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithSerializable())
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

// raise raises an alarm, as etcd does when it detects a problem.
func (c etcdctl) raise(name string, a membership.Alarm) {
	c.f.t.Helper()
	err := c.try(name, func(ctx context.Context, member *clientv3.Client) error {
		_, err := pb.NewMaintenanceClient(member.ActiveConnection()).Alarm(ctx, &pb.AlarmRequest{
			Action: pb.AlarmRequest_ACTIVATE, MemberID: a.Member, Alarm: pb.AlarmType(pb.AlarmType_value[a.Name]),
		})
		return err
	})
	if err != nil {
		c.f.t.Fatal(err)
	}
}

// fill writes 64 KiB to one key after another until the quota refuses a write. It returns
// the acknowledged writes.
func (c etcdctl) fill(name string, key func(i int) string) map[string]string {
	c.f.t.Helper()
	acknowledged := map[string]string{}
	for i := range 1000 {
		value := fmt.Sprintf("%064d", i) + strings.Repeat("x", 1<<16)
		err := c.put(name, key(i), value)
		if client.SameError(err, rpctypes.ErrNoSpace) {
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

func (c etcdctl) wantKeys(name string, want map[string]string) {
	c.f.t.Helper()
	have := c.keys(name)
	for key, value := range want {
		if have[key] != value {
			c.f.t.Errorf("%s has lost %s, or has an older value", name, key)
		}
	}
}

// wantWrites checks that every member accepts writes and no alarm is left.
func (c etcdctl) wantWrites(specs map[string]Spec) {
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

// update runs Update for the members whose Read reports drift, as Terraform does.
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

func (f *fleet) repair(specs map[string]Spec) {
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

// three creates a cluster of three members with a quota (0: etcd's own).
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

// damage changes the data of one member without a log entry.
func (f *fleet) damage(name string) {
	f.machine(name).server.Server.KV().Put([]byte("smuggled"), []byte("in"), lease.NoLease)
}

// wantRefused checks that the Updates of all members with drift are refused with an error
// that contains these words, and that nothing changed.
func (f *fleet) wantRefused(specs map[string]Spec, before membership.View, words ...string) {
	f.t.Helper()
	ids := func(v membership.View) (ids []uint64) {
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

package etcd

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// TestPowerCut creates, changes and deletes a member on a machine that loses its power after
// each command, and keeps everything.
func TestPowerCut(t *testing.T) {
	onLab(t, lab.Config{
		Name: "etcdpower", Subnet: netip.MustParsePrefix("10.78.0.0/24"), Machines: []string{"cp1"}, DiskImages: true,
	}, []string{newRelease}, testPowerCut)
}

func testPowerCut(t *testing.T) {
	var cuts *lab.PowerCuts
	r := newRigAround(t, func(l *lab.Lab) host.Around {
		// etcd flushes its data itself, and what it does not flush it can lose.
		cuts = lab.NewPowerCuts(l.Machine("cp1"), []string{"/etc", "/opt", "/var/lib"},
			[]string{"/var/lib/systemd", "/var/lib/etcd ", "/var/lib/etcd/", "/etc/.pwd.lock"})
		return cuts.Around
	})
	one := r.specs["cp1"]
	one.Peers = map[string]*host.Host{"cp1": one.Host}
	one.Snapshots = &snapshot.Settings{Schedule: never, Kept: 2}
	r.sh("cp1", "sync")
	during := func(what string, run func(context.Context, Spec) error) {
		t.Helper()
		started := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		n, lost, err := cuts.During(ctx, func() error { return run(ctx, one) })
		t.Logf("%s: %d power cuts in %s", what, n, time.Since(started).Round(100*time.Millisecond))
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if len(lost) > 0 {
			t.Fatalf("%s: a power cut changes\n%s", what, strings.Join(lost, "\n"))
		}
	}
	during("create", r.create)
	r.serves(one)
	one.ExtraArgs = maps.Clone(one.ExtraArgs)
	if one.ExtraArgs == nil {
		one.ExtraArgs = map[string]string{}
	}
	one.ExtraArgs["max-txn-ops"] = "512"
	during("update", func(ctx context.Context, s Spec) error { _, err := r.clusters.Update(ctx, s); return err })
	r.serves(one)
	during("delete", r.delete)
}

// TestPowerCutInBootstrap creates a cluster of one on a machine that loses its power after etcd has created its raft
// log, and before the log has an entry. Such a member never has a leader. The next apply bootstraps the cluster again.
func TestPowerCutInBootstrap(t *testing.T) {
	testrun.Long(t)
	onLab(t, lab.Config{
		Name: "etcdbirth", Subnet: netip.MustParsePrefix("10.79.0.0/24"), Machines: []string{"cp1"}, DiskImages: true,
	}, []string{newRelease}, testPowerCutInBootstrap)
}

func testPowerCutInBootstrap(t *testing.T) {
	var m *lab.Machine
	var cut func() // is called when the command that starts etcd has begun
	r := newRigAround(t, func(l *lab.Lab) host.Around {
		m = l.Machine("cp1")
		return func(_, summary string) (running, ended func()) {
			if cut == nil || !strings.HasPrefix(summary, "apply "+layout.UnitPath) {
				return func() {}, func() {}
			}
			return sync.OnceFunc(cut), func() {}
		}
	})
	one := r.specs["cp1"]
	one.Peers = map[string]*host.Host{"cp1": one.Host}
	r.clusters.pace.ConditionTimeout = 10 * time.Second
	for attempt := 1; ; attempt++ {
		failed := make(chan error, 1)
		cut = func() {
			// The log and its first entries are flushed one after the other.
			if err := m.SlowDisk(10); err != nil {
				failed <- err
				return
			}
			go func() {
				const created = "until [ -n \"$(ls /var/lib/etcd/member/wal/*.wal 2>/dev/null)\" ]; do sleep 0.01; done"
				_, err := m.Run(t.Context(), created)
				failed <- errors.Join(err, m.CutPower(t.Context()))
			}()
		}
		ctx, stop := context.WithCancel(t.Context())
		created := make(chan error, 1)
		go func() { created <- r.create(ctx, one) }()
		failure := <-failed
		stop()
		err := <-created
		if err := errors.Join(failure, m.Boot(t.Context())); err != nil {
			t.Fatal(err)
		}
		cut = nil
		f := r.clusters.of(one).observe(t.Context(), one, one.Name, one.Host)
		t.Logf("attempt %d: created: %t; the log is empty: %t", attempt, err == nil, f.EmptyLog)
		if f.EmptyLog {
			break
		}
		if attempt == 20 {
			t.Fatal("no power cut left an empty log")
		}
		if err := r.delete(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.create(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	r.serves(one)
	if archives := r.sh("cp1", "ls /var/lib/etcd-archive"); !strings.HasPrefix(archives, "cp1-") {
		t.Errorf("archives: %q", archives)
	}
	if err := r.delete(t.Context(), one); err != nil {
		t.Fatal(err)
	}
}

// serves waits until the member, whose machine has just booted, serves as it should.
func (r *rig) serves(s Spec) {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		err := r.same(r.t.Context(), s)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatal(err)
		}
	}
}

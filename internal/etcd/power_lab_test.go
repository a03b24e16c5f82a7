package etcd

import (
	"context"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
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

package etcd

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// hogs are services in system.slice that want all processors and write to the disk all the time.
const hogs = `for i in $(seq 16); do
  systemd-run --quiet --unit=hog-$i sh -c 'while :; do :; done'
done
systemd-run --quiet --unit=hog-disk sh -c 'while :; do dd if=/dev/zero of=/var/tmp/hog bs=1M count=32 conv=fsync; done'`

// TestBusyNeighbourOnMachines writes to a member on a machine whose other services want all processors,
// without and with what is reserved for etcd. Lab machines have cgroup v1 on some computers: there, weights
// of processors are in effect, and neither reserved memory nor, for most disks, weights of disks.
func TestBusyNeighbourOnMachines(t *testing.T) {
	testrun.Long(t)
	onLab(t, lab.Config{
		Name: "etcdbusy", Subnet: netip.MustParsePrefix("10.87.0.0/24"), Machines: []string{"cp1"},
	}, []string{newRelease}, testBusyNeighbour)
}

func testBusyNeighbour(t *testing.T) {
	r := newRig(t)
	one := r.specs["cp1"]
	one.Peers = map[string]*host.Host{"cp1": one.Host}
	r.specs["cp1"] = one
	// systemd-nspawn mounts the hierarchies of cgroup v1 without the right to write to them.
	r.sh("cp1", `for each in /sys/fs/cgroup /sys/fs/cgroup/*; do
  mount -o remount,bind,rw "$each" 2>/dev/null || true
done`)
	r.only([]string{"cp1"}, "create", r.create)
	idle := r.puts(one)
	busy := r.putsBusy(one)
	one.Limits = systemd.Limits{MemoryMin: "10%", CPUWeight: 1000, IOWeight: 1000}
	r.specs["cp1"] = one
	update := func(ctx context.Context, s Spec) error { _, err := r.clusters.Update(ctx, s); return err }
	r.only([]string{"cp1"}, "reserve", update)
	r.only([]string{"cp1"}, "read", r.same)
	reserved := r.putsBusy(one)
	t.Logf("puts: idle %v, busy without reservations %v, busy with %v", idle, busy, reserved)
	group := strings.TrimSpace(r.sh("cp1", `systemctl show --property=ControlGroup --value etcd.service
cd /sys/fs/cgroup; for file in cpu/etcd.slice/cpu.shares blkio/etcd.slice/blkio*.weight \
  etcd.slice/cpu.weight etcd.slice/memory.min etcd.slice/io.weight; do [ ! -e $file ] || echo $file $(cat $file); done
systemctl show --property=MemoryMin,CPUWeight,IOWeight etcd.slice`))
	t.Log(group)
	if !strings.HasPrefix(group, "/etcd.slice/etcd.service\n") {
		t.Errorf("etcd is in another group")
	}
	if reserved.p90*2 > busy.p90 {
		t.Errorf("with reservations, 90%% of the puts take up to %v, and without up to %v", reserved.p90, busy.p90)
	}
	one.Limits = systemd.Limits{}
	r.specs["cp1"] = one
	r.only([]string{"cp1"}, "release", update)
	if slice := r.sh("cp1", "systemctl show --property=Slice --value etcd.service"); slice != "system.slice\n" {
		t.Errorf("without reservations, etcd is in %s", slice)
	}
	r.only([]string{"cp1"}, "destroy", r.delete)
}

// putsBusy is puts while the hogs run. Changes are made without them, because they keep sshd waiting too.
func (r *rig) putsBusy(s Spec) latencies {
	r.t.Helper()
	r.sh("cp1", hogs)
	defer r.sh("cp1", "systemctl stop 'hog-*'; rm -f /var/tmp/hog")
	return r.puts(s)
}

// latencies are quantiles.
type latencies struct{ p50, p90, p99 time.Duration }

// puts writes to a member, not through the machine's sshd, which the neighbours keep waiting too.
func (r *rig) puts(s Spec) latencies {
	r.t.Helper()
	config, err := r.clusters.of(s).clientTLS(s.Bundle)
	if err != nil {
		r.t.Fatal(err)
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{s.ClientURL()}, TLS: config, DialTimeout: 30 * time.Second, Context: r.t.Context(),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	var took []time.Duration
	until := time.Now().Add(40 * time.Second)
	for i := 0; i < 300 && (i < 30 || time.Now().Before(until)); i++ {
		begun := time.Now()
		ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
		_, err := c.Put(ctx, fmt.Sprintf("busy/%d", i), strings.Repeat("x", 1000))
		cancel()
		if err != nil {
			r.t.Fatalf("put %d: %v", i, err)
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	at := func(share float64) time.Duration {
		return took[int(share*float64(len(took)))].Round(100 * time.Microsecond)
	}
	return latencies{at(0.5), at(0.9), at(0.99)}
}

package etcd

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// Hogs are services in system.slice that want all processors, or write to the disk all the time.
const (
	processorHogs = `for i in $(seq 16); do
  systemd-run --quiet --unit=hog-$i sh -c 'while :; do :; done'
done`
	diskHog = `systemd-run --quiet --unit=hog-disk \
  sh -c 'while :; do dd if=/dev/zero of=/var/tmp/hog bs=1M count=32 conv=fsync; done'`
)

// TestBusyNeighbourOnMachines writes to a member on a machine whose other services want all processors, and on one
// where another service writes to the disk, without and with what is reserved for etcd. Lab machines have cgroup v1 on
// some computers: there, weights of processors are in effect, and neither reserved memory nor, for most disks, weights
// of disks. Those are required where the disk has them.
func TestBusyNeighbourOnMachines(t *testing.T) {
	testrun.Long(t)
	onLab(t, lab.Config{
		Name: busyLab, Subnet: netip.MustParsePrefix("10.87.0.0/24"), Machines: []string{"cp1"},
	}, []string{newRelease}, testBusyNeighbour)
}

const busyLab = "etcdbusy"

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
	busy, slow := r.putsWith(one, processorHogs), r.putsWith(one, diskHog)
	one.Limits = systemd.Limits{MemoryMin: "10%", CPUWeight: 1000, IOWeight: 1000}
	r.specs["cp1"] = one
	update := func(ctx context.Context, s Spec) error { _, err := r.clusters.Update(ctx, s); return err }
	r.only([]string{"cp1"}, "reserve", update)
	r.only([]string{"cp1"}, "read", r.same)
	r.expectReserved()
	r.expectReviewed("", "1000")
	r.sh("cp1", "systemctl --runtime set-property etcd.slice CPUWeight=77")
	r.expectReviewed("CPUWeight=1000, and etcd.slice has 77", "77")
	r.sh("cp1", "systemctl --runtime set-property etcd.slice CPUWeight=1000")
	r.compare("all processors busy", idle, busy, r.putsWith(one, processorHogs), true)
	r.compare("the disk busy", idle, slow, r.putsWith(one, diskHog), r.weighsDisk())
	one.Limits = systemd.Limits{}
	r.specs["cp1"] = one
	r.only([]string{"cp1"}, "release", update)
	if slice := r.sh("cp1", "systemctl show --property=Slice --value etcd.service"); slice != "system.slice\n" {
		t.Errorf("without reservations, etcd is in %s", slice)
	}
	r.only([]string{"cp1"}, "destroy", r.delete)
}

// expectReserved expects that etcd is in a slice of its own, and logs the weights that the kernel has.
func (r *rig) expectReserved() {
	r.t.Helper()
	group := strings.TrimSpace(r.sh("cp1", `systemctl show --property=ControlGroup --value etcd.service
cd /sys/fs/cgroup; for file in cpu/etcd.slice/cpu.shares blkio/etcd.slice/blkio*.weight \
  etcd.slice/cpu.weight etcd.slice/memory.min etcd.slice/io*.weight; do [ ! -e $file ] || echo $file $(cat $file); done
systemctl show --property=MemoryMin,CPUWeight,IOWeight etcd.slice`))
	r.t.Log(group)
	if !strings.HasPrefix(group, "/etcd.slice/etcd.service\n") {
		r.t.Errorf("etcd is in another group")
	}
}

// expectReviewed expects what a review says of the reservations that are in effect.
func (r *rig) expectReviewed(differs, weight string) {
	r.t.Helper()
	_, seen := r.clusters.Review(r.t.Context(), r.specs["cp1"].Peers, r.specs["cp1"].Bundle)
	if len(seen) != 1 || seen[0].Process.CPUWeight != weight ||
		strings.Join(seen[0].Process.NotInEffect, "; ") != differs {
		r.t.Errorf("review: %+v", seen)
	}
}

// compare logs the latencies without and with reservations. If they are required to help, nine of ten puts take half
// as long.
func (r *rig) compare(what string, idle, without, with latencies, required bool) {
	r.t.Helper()
	r.t.Logf("puts, %s: idle %v, without reservations %v, with %v; required: %t", what, idle, without, with, required)
	if required && with.p90*2 > without.p90 {
		r.t.Errorf("with reservations, 90%% of the puts take up to %v, and without up to %v", with.p90, without.p90)
	}
}

// weighsDisk reports whether weights are in effect on the disk of the machine: its scheduler is bfq, or io.cost is
// enabled for it (Documentation/admin-guide/cgroup-v2.rst, io.weight), and the weight is in its group.
func (r *rig) weighsDisk() bool {
	r.t.Helper()
	var place unix.Stat_t
	if err := unix.Stat(filepath.Join("/var/lib/kube-lab", busyLab), &place); err != nil {
		r.t.Fatal(err)
	}
	device := fmt.Sprintf("%d:%d", unix.Major(place.Dev), unix.Minor(place.Dev))
	weight := strings.TrimSpace(r.sh("cp1", `cd /sys/fs/cgroup
cat blkio/etcd.slice/blkio*.weight etcd.slice/io*.weight 2>/dev/null | grep -c 1000 || true`))
	cost, _ := os.ReadFile("/sys/fs/cgroup/io.cost.qos")
	costs := strings.Contains(string(cost), device+" enable=1")
	// A partition's queue is that of its disk; memory has none.
	var scheduler []byte
	for _, file := range []string{"queue/scheduler", "../queue/scheduler"} {
		if text, err := os.ReadFile(filepath.Join("/sys/dev/block", device) + "/" + file); err == nil {
			scheduler = text
			break
		}
	}
	r.t.Logf("the disk %s: scheduler %q, io.cost %t, weights of etcd: %s", device, strings.TrimSpace(string(scheduler)),
		costs, weight)
	return weight != "0" && (costs || strings.Contains(string(scheduler), "[bfq]"))
}

// putsWith is puts while hogs run. Changes are made without them, because they keep sshd waiting too.
func (r *rig) putsWith(s Spec, hogs string) latencies {
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

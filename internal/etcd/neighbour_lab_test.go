package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/volume"
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
  sh -c 'while :; do dd if=/dev/zero of=/var/tmp/hog bs=64K count=64 oflag=dsync conv=notrunc; done'`
)

// busyWrites is how often a second the disk of the machine can be written to, so that one hog keeps it busy.
const busyWrites = 20

// TestBusyNeighbourOnMachines writes to a member on a machine whose other services want all processors, and on one
// where another service writes to the disk: without and with what is reserved for etcd, and with a disk of its own. Lab
// machines have cgroup v1 on some computers: there, weights of processors are in effect, and neither reserved memory
// nor, for most disks, weights of disks. Those are required where the disk has them; a disk of its own always helps.
func TestBusyNeighbourOnMachines(t *testing.T) {
	testrun.Long(t)
	onLab(t, lab.Config{
		Name: busyLab, Subnet: netip.MustParsePrefix("10.87.0.0/24"), Machines: []string{"cp1"}, DiskImages: true,
	}, []string{newRelease}, testBusyNeighbour)
}

const busyLab = "etcdbusy"

func testBusyNeighbour(t *testing.T) {
	r := newRig(t)
	one := r.specs["cp1"]
	one.Peers = map[string]*host.Host{"cp1": one.Host}
	r.specs["cp1"] = one
	// systemd-nspawn mounts the hierarchies of cgroup v1 without the right to write to them, and systemd looks at them
	// when it starts.
	r.sh("cp1", `for each in /sys/fs/cgroup /sys/fs/cgroup/*; do
  mount -o remount,bind,rw "$each" 2>/dev/null || true
done
systemctl daemon-reexec`)
	r.t.Cleanup(func() { // what a machine that is killed leaves in the computer's hierarchies
		for range 5 { // levels
			left, _ := filepath.Glob("/sys/fs/cgroup/*/*.slice/*")
			more, _ := filepath.Glob("/sys/fs/cgroup/*/*.slice")
			for _, group := range append(left, more...) {
				_ = syscall.Rmdir(group) // one in use stays
			}
		}
	})
	r.only([]string{"cp1"}, "create", r.create)
	idle := r.puts(one)
	busy, slow := r.putsWith(one, processorHogs), r.putsWithBusyDisk(one)
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
	r.compare("the disk busy", idle, slow, r.putsWithBusyDisk(one), r.weighsDisk())
	one.Limits = systemd.Limits{}
	r.specs["cp1"] = one
	r.only([]string{"cp1"}, "release", update)
	if slice := r.sh("cp1", "systemctl show --property=Slice --value etcd.service"); slice != "system.slice\n" {
		t.Errorf("without reservations, etcd is in %s", slice)
	}
	r.only([]string{"cp1"}, "destroy", r.delete)
	newProcess(t, r.lab, one.Bundle).ownVolume(one, idle, slow) // this one does not bootstrap after it has seen a cluster
}

// ownVolume gives the member a disk of its own. What another service writes to the machine's disk does not delay it.
func (r *rig) ownVolume(one Spec, idle, slow latencies) {
	r.t.Helper()
	disk, err := lab.NewVolume(r.t.Context(), filepath.Join(r.t.TempDir(), "volume"), 2<<30) // a sparse file
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := disk.Remove(); err != nil {
			r.t.Error(err)
		}
	})
	one.Host = r.specs["cp1"].Host
	one.Peers = map[string]*host.Host{"cp1": one.Host}
	if err := disk.Attach(r.t.Context(), r.lab.Machine("cp1"), volumeDevice); err != nil {
		r.t.Fatal(err)
	}
	one.Volume = &volume.Spec{Device: volumeDevice, MountPath: volumePlace}
	one.DataDir = volumePlace + "/etcd"
	r.specs["cp1"] = one
	r.only([]string{"cp1"}, "create on a disk of its own", r.create)
	r.compare("a disk of its own", idle, slow, r.putsWithBusyDisk(one), true)
	r.only([]string{"cp1"}, "destroy", r.delete)
	r.sh("cp1", "! mountpoint -q "+volumePlace+" || umount "+volumePlace)
}

// expectReserved expects that etcd is in a slice of its own, and that the kernel has what is reserved: with cgroup v2
// everything, with v1 the weight of processors.
func (r *rig) expectReserved() {
	r.t.Helper()
	const files = "cpu/etcd.slice/cpu.shares blkio/etcd.slice/blkio*.weight etcd.slice/cpu.weight etcd.slice/memory.min " +
		"etcd.slice/io*.weight"
	group := strings.TrimSpace(r.sh("cp1", `systemctl show --property=ControlGroup --value etcd.service
cd /sys/fs/cgroup; for file in `+files+`; do [ ! -e $file ] || echo $file $(cat $file); done
systemctl show --property=MemoryMin,CPUWeight,IOWeight etcd.slice
[ ! -e cgroup.controllers ] || echo unified
sed -n 's/^MemTotal: *\([0-9]*\) kB/total \1/p' /proc/meminfo`))
	r.t.Log(group)
	if !strings.HasPrefix(group, "/etcd.slice/etcd.service\n") {
		r.t.Errorf("etcd is in another group")
	}
	lines := strings.Split(group, "\n")
	value := func(prefix string) int64 {
		for _, line := range lines {
			if text, has := strings.CutPrefix(line, prefix); has {
				n, _ := strconv.ParseInt(text, 10, 64) // what is no number is not what was wanted
				return n
			}
		}
		return 0
	}
	tenth := value("total ") << 10 / 10
	about := func(n int64) bool { return n > tenth-tenth/100 && n < tenth+tenth/100 }
	if !about(value("MemoryMin=")) || value("CPUWeight=") != 1000 || value("IOWeight=") != 1000 {
		r.t.Errorf("systemd has not reserved a tenth of the memory and the weights")
	}
	if slices.Contains(lines, "unified") {
		if !about(value("etcd.slice/memory.min ")) || value("etcd.slice/cpu.weight ") != 1000 {
			r.t.Errorf("the kernel has not reserved a tenth of the memory and the weight")
		}
	} else if shares := value("cpu/etcd.slice/cpu.shares "); shares != 0 && shares != 10240 {
		// 10240 of 1024, as 1000 of 100. A container may not see the file: what the weight does is measured.
		r.t.Errorf("the kernel has %d shares of processors for etcd", shares)
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
	// The disk is a loop device of the machine's image.
	loops, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		r.t.Fatal(err)
	}
	loops = slices.DeleteFunc(loops, func(file string) bool {
		image, err := os.ReadFile(file)
		return err != nil || !strings.HasPrefix(string(image), filepath.Join("/var/lib/kube-lab", busyLab)+"/")
	})
	if len(loops) != 1 {
		r.t.Fatalf("the machine has the disks %q", loops)
	}
	queue := filepath.Join(filepath.Dir(loops[0]), "..")
	number, err := os.ReadFile(queue + "/dev")
	if err != nil {
		r.t.Fatal(err)
	}
	device := strings.TrimSpace(string(number))
	weight := strings.TrimSpace(r.sh("cp1", `cd /sys/fs/cgroup
cat blkio/etcd.slice/blkio*.weight etcd.slice/io*.weight 2>/dev/null | grep -c 1000 || true`))
	cost, _ := os.ReadFile("/sys/fs/cgroup/io.cost.qos")
	costs := strings.Contains(string(cost), device+" enable=1")
	scheduler, err := os.ReadFile(queue + "/queue/scheduler")
	if err != nil {
		r.t.Fatal(err)
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

// putsWithBusyDisk is putsWith a hog on the machine's disk, which is slow.
func (r *rig) putsWithBusyDisk(s Spec) latencies {
	r.t.Helper()
	m := r.lab.Machine("cp1")
	if err := m.SlowDisk(busyWrites); err != nil {
		r.t.Fatal(err)
	}
	defer func() {
		if err := m.SlowDisk(0); err != nil {
			r.t.Error(err)
		}
	}()
	return r.putsWith(s, diskHog)
}

// latencies are quantiles.
type latencies struct{ p50, p90, p99 time.Duration }

// prioritize sets the nice value of this process. The neighbours of etcd are also its own, and what is measured is how
// long etcd waits for a processor. Machines that it starts meanwhile would inherit the value.
func (r *rig) prioritize(nice int) {
	r.t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err == nil {
			err = syscall.Setpriority(syscall.PRIO_PROCESS, id, nice)
		}
		if err != nil && !errors.Is(err, syscall.ESRCH) { // or the thread has ended
			r.t.Fatal(err)
		}
	}
}

// writers write at the same time, so that etcd needs processors. How soon the kernel lets a process run that needs one
// for a moment depends on its scheduler, whatever the weights: since Linux 6.6, not before another one's slice ends.
const (
	writers    = 16
	mostPuts   = 200 // of each
	fewestPuts = 5
)

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
	r.prioritize(-20)
	defer r.prioritize(0)
	var (
		all  errgroup.Group
		mu   sync.Mutex
		took []time.Duration
	)
	until := time.Now().Add(40 * time.Second)
	for writer := range writers {
		all.Go(func() error {
			for i := 0; i < mostPuts && (i < fewestPuts || time.Now().Before(until)); i++ {
				begun := time.Now()
				ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
				_, err := c.Put(ctx, fmt.Sprintf("busy/%d/%d", writer, i), strings.Repeat("x", 1000))
				cancel()
				if err != nil {
					return fmt.Errorf("put %d: %w", i, err)
				}
				mu.Lock()
				took = append(took, time.Since(begun))
				mu.Unlock()
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		r.t.Fatal(err)
	}
	slices.Sort(took)
	at := func(share float64) time.Duration {
		return took[int(share*float64(len(took)))].Round(100 * time.Microsecond)
	}
	return latencies{at(0.5), at(0.9), at(0.99)}
}

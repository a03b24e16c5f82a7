package etcd

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// TestDiskOnMachines: liveness probes and a disk that hangs, and one that is full.
func TestDiskOnMachines(t *testing.T) {
	testrun.Long(t)
	onLab(t, lab.Config{
		Name: "etcddisk", Subnet: netip.MustParsePrefix("10.73.0.0/24"), Machines: everyone, DiskImages: true,
	}, []string{newRelease}, testDisk)
}

func testDisk(t *testing.T) {
	r := newRig(t)
	for name, s := range r.specs {
		s.LivenessProbe = true
		r.specs[name] = s
	}
	r.all("create", r.create)
	r.hurryProbes()
	r.diskHangs("cp3")
	r.diskIsFull("cp3")
}

// hurryProbes gives the probes less time than kubeadm's, so that the test takes minutes.
func (r *rig) hurryProbes() {
	r.t.Helper()
	for _, name := range everyone {
		r.sh(name, `sed -i -e 's/^timeout=.*/timeout=2/' -e 's/^threshold=.*/threshold=4/' \
  -e 's/^hold=.*/hold=40/' /etc/etcd/liveness.sh
grep -qx threshold=4 /etc/etcd/liveness.sh
sed -i 's/=10$/=2/' /etc/systemd/system/etcd-liveness.timer
rm -f /run/etcd-liveness/members
systemctl daemon-reload
systemctl restart etcd-liveness.timer
until [ "$(wc -l </run/etcd-liveness/members 2>/dev/null)" = 3 ] && grep -q ' 1 0 ' /run/etcd-liveness/etcd.service; do
  sleep 0.5
done`)
	}
}

// kills returns how often the probe of a machine has killed its member.
func (r *rig) kills(name string) int {
	r.t.Helper()
	out := strings.TrimSpace(r.sh(name, "journalctl --no-pager -o cat -u etcd-liveness | grep -c 'it is killed' || true"))
	n, err := strconv.Atoi(out)
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// record lets a machine note the failed probes of its member, and when they were.
func (r *rig) record(name string) {
	r.t.Helper()
	if err := r.lab.Machine(name).Record(r.t.Context(), `file=/run/etcd-liveness/etcd.service
  ! read -r _ _ failures _ <$file || echo "$(stat -c %Y $file) $failures"`); err != nil {
		r.t.Fatal(err)
	}
}

// recorded ends record, and returns how many rounds of probes there were, how many failed in a row, and how long the
// disk hung.
func (r *rig) recorded(name string) (rounds, failures int, hung time.Duration) {
	r.t.Helper()
	recording, err := r.lab.Machine(name).Recorded(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	last := 0
	for _, line := range recording.Lines {
		var written, failed int
		if _, err := fmt.Sscan(line, &written, &failed); err != nil {
			r.t.Fatalf("%q: %v", line, err)
		}
		if written != last {
			rounds, last = rounds+1, written
		}
		failures = max(failures, failed)
	}
	r.t.Logf("%s: %d rounds of probes, up to %d failures in a row, the disk hung for %s", name, rounds, failures,
		recording.Hung)
	return rounds, failures, recording.Hung
}

// fillDisk leaves no space, and prints how many bytes there are.
const fillDisk = `free() { df --output=avail --block-size=1 / | tail -n 1; }
n=0 size=$(free)
while [ "$(free)" -ge 4096 ] && [ "$size" -ge 4096 ]; do
  n=$((n + 1))
  fallocate --length "$size" /filler.$n 2>/dev/null || size=$((size / 2))
done
free`

// running returns the processes of the members on the machines.
func (r *rig) running(names ...string) []string {
	r.t.Helper()
	var all []string
	for _, name := range names {
		all = append(all, strings.TrimSpace(r.sh(name, "systemctl show --property=MainPID --value etcd")))
	}
	return all
}

// write puts values of a megabyte through cp1 until the time has passed, at least one.
func (r *rig) write(during time.Duration) {
	r.t.Helper()
	s := r.specs["cp1"]
	clients, err := r.clusters.of(s).connect(s)
	if err != nil {
		r.t.Fatal(err)
	}
	defer clients.Close()
	value := make([]byte, 1<<20)
	writes := 0
	for begin := time.Now(); writes == 0 || time.Since(begin) < during; writes++ {
		if err := clients.Call(r.t.Context(), s.Host.Address(), time.Minute,
			func(ctx context.Context, member *clientv3.Client) error {
				_, err := member.Put(ctx, fmt.Sprintf("key%d", writes%20), string(value))
				return err
			}); err != nil {
			r.t.Fatalf("write %d: %v", writes, err)
		}
		time.Sleep(300 * time.Millisecond)
	}
	r.t.Logf("%d MiB were written", writes)
}

// recovers waits until a member is healthy again. Its probes were edited, so it has drift.
func (r *rig) recovers(name string) {
	r.t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(time.Second) {
		status, err := r.clusters.Read(r.t.Context(), r.specs[name])
		if err == nil && status.Healthy {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%s does not recover: %+v, %v", name, status, err)
		}
	}
}

// diskHangs: a member whose disk hangs cannot even be killed. The others go on, and it returns when the disk does.
func (r *rig) diskHangs(victim string) {
	r.t.Helper()
	others := r.running("cp1", "cp2")
	m := r.lab.Machine(victim)
	r.record(victim)
	if err := m.StopDisk(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = m.ResumeDisk() })
	r.write(time.Minute) // 15 probes
	if err := m.ResumeDisk(); err != nil {
		r.t.Fatal(err)
	}
	// The member goes on answering the probe, which reads from memory.
	if rounds, _, hung := r.recorded(victim); rounds < 3 || hung < 50*time.Second {
		r.t.Errorf("the disk hung for %s, with %d rounds of probes", hung, rounds)
	}
	r.recovers(victim)
	r.t.Logf("a disk that hangs: the member was killed %d times", r.kills(victim))
	if n := r.kills(victim); n > 1 {
		r.t.Errorf("the member whose disk hung was killed %d times", n)
	}
	if now := r.running("cp1", "cp2"); !slices.Equal(now, others) {
		r.t.Errorf("the members on other machines were restarted: %v, before %v", now, others)
	}
}

// diskIsFull: etcd ends when it cannot write its log, and systemd starts it in vain. The probe kills nothing, because
// it has not been live since its start.
func (r *rig) diskIsFull(victim string) {
	r.t.Helper()
	others, before := r.running("cp1", "cp2"), r.kills(victim)
	r.record(victim)
	left, err := strconv.Atoi(strings.TrimSpace(r.sh(victim, fillDisk)))
	if err != nil || left >= 1<<20 {
		r.t.Fatalf("%d bytes are left on the disk, %v", left, err)
	}
	r.write(time.Minute)
	state := strings.Fields(r.sh(victim, "systemctl show --property=NRestarts --value etcd; "+
		"journalctl --no-pager -o cat -u etcd | grep -c 'no space left' || true"))
	r.t.Logf("a full disk: systemd's restarts, and etcd's messages: %q", state)
	if len(state) != 2 || state[0] == "0" || state[1] == "0" {
		r.t.Errorf("the member had enough space")
	}
	r.write(30 * time.Second)
	if n := r.kills(victim) - before; n > 0 {
		r.t.Errorf("the member on a full disk was killed %d times", n)
	}
	if _, failures, _ := r.recorded(victim); failures == 0 {
		r.t.Error("no probe of the member failed")
	}
	r.sh(victim, "rm /filler.*")
	r.recovers(victim)
	if now := r.running("cp1", "cp2"); !slices.Equal(now, others) {
		r.t.Errorf("the members on other machines were restarted: %v, before %v", now, others)
	}
}

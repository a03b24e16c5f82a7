package acceptance

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// TestLivenessDisk: a disk that hangs and a disk that is full restart nothing on other machines, and on their own
// machine no more than once. The disks of all machines that hang at once restart nothing. Everything serves again when
// the disks do.
func TestLivenessDisk(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	newStory(t, names...) // the machines are there
	onImage(t, names...)
	w := newStory(t, names...) // with their new host keys
	apply(t, w)
	hurry(t, names, 4)
	t.Run("a disk that hangs", func(t *testing.T) {
		before := processes(t, names...)
		hang(t, "cp3")
		expectOnlyVictim(t, names, before)
	})
	t.Run("the disks of all machines", func(t *testing.T) { allDisksHang(t, names) })
	t.Run("a full disk", func(t *testing.T) { diskIsFull(t, names) })
	apply(t, w) // the edited probes
	awaitRotation(t, names...)
	expectHealthy(t, w, names)
	apply(t, w, "-destroy")
}

// allDisksHang: no member and no API server is restarted for what all machines share. The others end on their own when
// they lose their lease.
func allDisksHang(t *testing.T, names []string) {
	before := processes(t, names...)
	seen := hang(t, names...)
	var may []string
	for _, name := range names {
		for _, unit := range []string{"etcd", "kube-apiserver"} {
			if n := len(seen[name+" "+unit].invocations); n != 1 {
				t.Errorf("%s on %s was started %d times while the disks hung", unit, name, n-1)
			}
		}
		may = append(may, name+" kube-controller-manager", name+" kube-scheduler")
	}
	for _, name := range names {
		for _, unit := range []string{"etcd", "kube-apiserver", "kube-scheduler"} {
			awaitFor(t, restartTimeout, unit+" on "+name+" does not serve", func() bool { return serves(t, name, unit) })
		}
		if log := onMachine(t, shared.lab.Machine(name), killed); log != "" {
			t.Logf("%s: %s", name, log)
		}
	}
	expectRestarted(t, before, nil, may...)
}

// diskIsFull: the database of cp3 cannot grow. etcd ends, and systemd starts it in vain until there is space.
func diskIsFull(t *testing.T, names []string) {
	victim := shared.lab.Machine("cp3")
	before := processes(t, names...)
	record(t, victim)
	left, err := strconv.Atoi(strings.TrimSpace(onMachine(t, victim, fillDisk)))
	if err != nil || left >= 1<<20 {
		t.Fatalf("%d bytes are left on the disk of cp3, %v", left, err)
	}
	// As much as etcd has no room for, through a member on another machine.
	onMachine(t, shared.lab.Machine("cp1"), ctl+`head -c 1000000 /dev/zero | tr '\0' x >/tmp/value
for n in $(seq 60); do
  etcdctl put filler/$((n % 20)) </tmp/value >/dev/null
  sleep 1
done
rm /tmp/value`)
	noSpace := onMachine(t, victim, "journalctl --no-pager -o cat -u etcd | grep -c 'no space left' || :")
	if strings.TrimSpace(noSpace) == "0" {
		t.Error("etcd on cp3 had enough space")
	}
	units, _ := recorded(t, victim)
	seen := units["etcd"]
	t.Logf("etcd on cp3: %+v, and %s times no space left", seen, strings.TrimSpace(noSpace))
	if len(seen.invocations) < 2 {
		t.Error("etcd on cp3 did not end")
	}
	if seen.failures == 0 {
		t.Error("no probe of etcd on cp3 failed")
	}
	onMachine(t, victim, "rm /filler.*")
	onMachine(t, shared.lab.Machine("cp1"), ctl+"etcdctl del --prefix filler/")
	expectOnlyVictim(t, names, before)
}

// fillDisk leaves no space, and prints how many bytes there are.
const fillDisk = `free() { df --output=avail --block-size=1 / | tail -n 1; }
n=0 size=$(free)
while [ "$(free)" -ge 4096 ] && [ "$size" -ge 4096 ]; do
  n=$((n + 1))
  fallocate --length "$size" /filler.$n 2>/dev/null || size=$((size / 2))
done
free`

// killed prints what the probes have killed.
const killed = "journalctl --no-pager -o cat -u etcd-liveness -u kube-liveness | grep 'it is killed' || :"

// hang stops the disks of machines for a minute, which is 15 probes, and returns what the probes have observed
// meanwhile, by "MACHINE UNIT". A member goes on answering its probe, which reads from memory; its API server is not
// ready. systemd hangs too, and with it the rounds of probes, when it starts a unit with PrivateTmp=, such as that of a
// scheduler that has lost its lease.
func hang(t *testing.T, names ...string) map[string]observedProbes {
	t.Helper()
	for _, name := range names {
		record(t, shared.lab.Machine(name))
	}
	for _, name := range names {
		m := shared.lab.Machine(name)
		if err := m.StopDisk(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.ResumeDisk() })
	}
	time.Sleep(time.Minute)
	for _, name := range names {
		if err := shared.lab.Machine(name).ResumeDisk(); err != nil {
			t.Fatal(err)
		}
	}
	all, noticed := map[string]observedProbes{}, false
	for _, name := range names {
		units, hung := recorded(t, shared.lab.Machine(name))
		if hung < 50*time.Second {
			t.Errorf("the disk of %s hung for %s only", name, hung)
		}
		for unit, seen := range units {
			all[name+" "+unit] = seen
			t.Logf("%s %s: %+v", name, unit, seen)
			if seen.rounds < 3 {
				t.Errorf("%s on %s was probed in %d rounds while the disk hung", unit, name, seen.rounds)
			}
		}
		noticed = noticed || all[name+" kube-apiserver"].unready > 0
	}
	if !noticed {
		t.Errorf("no probe noticed that the disks of %v hung", names)
	}
	return all
}

// observedProbes is what a machine has noted of the probes of a unit.
type observedProbes struct {
	rounds      int
	failures    int // most in a row
	unready     int // most seconds
	invocations []string
}

// record lets a machine note the state that the probes leave, and when that was.
func record(t *testing.T, m *lab.Machine) {
	t.Helper()
	if err := m.Record(t.Context(), `for file in /run/etcd-liveness/*.service /run/kube-liveness/*.service; do
    ! read -r state <$file || echo "$file $(stat -c %Y $file) $state"
  done`); err != nil {
		t.Fatal(err)
	}
}

// recorded ends record, and returns what the machine has noted by unit, and how long its disk hung.
func recorded(t *testing.T, m *lab.Machine) (units map[string]observedProbes, hung time.Duration) {
	t.Helper()
	recording, err := m.Recorded(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	units = map[string]observedProbes{}
	last := map[string]int{}
	for _, line := range recording.Lines {
		var file, invocation string
		var written, lived, failures, since, unready int
		if _, err := fmt.Sscan(line, &file, &written, &invocation, &lived, &failures, &since, &unready); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		unit := strings.TrimSuffix(file[strings.LastIndex(file, "/")+1:], ".service")
		seen := units[unit]
		if written != last[unit] {
			seen.rounds++
			last[unit] = written
		}
		seen.failures, seen.unready = max(seen.failures, failures), max(seen.unready, unready)
		if n := len(seen.invocations); n == 0 || seen.invocations[n-1] != invocation {
			seen.invocations = append(seen.invocations, invocation)
		}
		units[unit] = seen
	}
	return units, recording.Hung
}

// expectOnlyVictim waits until cp3 serves again. Nothing that its probes watch was killed more than once, and on other
// machines nothing was restarted but what has lost its lease.
func expectOnlyVictim(t *testing.T, names []string, before map[string]string) {
	t.Helper()
	for _, unit := range []string{"etcd", "kube-apiserver", "kube-scheduler"} {
		awaitFor(t, restartTimeout, unit+" on cp3 does not serve", func() bool { return serves(t, "cp3", unit) })
	}
	log := onMachine(t, shared.lab.Machine("cp3"), killed)
	for _, unit := range []string{"etcd", "kube-apiserver"} {
		if n := strings.Count(log, unit+".service has failed"); n > 1 {
			t.Errorf("%s on cp3 was killed %d times", unit, n)
		}
	}
	var may []string
	for _, name := range names {
		may = append(may, name+" kube-controller-manager", name+" kube-scheduler")
	}
	expectRestarted(t, before, nil, append(may, "cp3 etcd", "cp3 kube-apiserver")...)
}

// onImage makes machines anew with disks that can be stopped, until the end of the test.
func onImage(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := shared.lab.Machine(name).RebuildOnImage(t.Context()); err != nil {
			t.Fatal(err)
		}
		rebuildAfter(t, shared.lab.Machine(name))
	}
}

package acceptance

import (
	"strings"
	"testing"
	"time"
)

// TestLivenessDisk: a disk that hangs and a disk that is full restart nothing on other machines, and on their own
// machine no more than once. Everything serves again when the disk does.
func TestLivenessDisk(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	newStory(t, names...) // the machines are there
	onImage(t, names...)
	w := newStory(t, names...) // with their new host keys
	apply(t, w)
	hurry(t, names, 4)
	victim := shared.lab.Machine("cp3")
	t.Run("a disk that hangs", func(t *testing.T) {
		before := processes(t, names...)
		if err := victim.StopDisk(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = victim.ResumeDisk() })
		time.Sleep(time.Minute) // the disk hangs for 15 probes
		if err := victim.ResumeDisk(); err != nil {
			t.Fatal(err)
		}
		expectOnlyVictim(t, names, before)
	})
	t.Run("a full disk", func(t *testing.T) {
		before := processes(t, names...)
		onMachine(t, victim, "fallocate -l $(df --output=avail -B1 / | tail -n 1) /filler || true")
		time.Sleep(time.Minute)
		onMachine(t, victim, "rm /filler")
		expectOnlyVictim(t, names, before)
	})
	apply(t, w) // the edited probes
	expectHealthy(t, w, names)
	apply(t, w, "-destroy")
}

// expectOnlyVictim waits until cp3 serves again. Nothing that its probes watch was killed more than once, and on other
// machines nothing was restarted but what has lost its lease.
func expectOnlyVictim(t *testing.T, names []string, before map[string]string) {
	t.Helper()
	for _, unit := range []string{"etcd", "kube-apiserver", "kube-scheduler"} {
		awaitFor(t, restartTimeout, unit+" on cp3 does not serve", func() bool { return serves(t, "cp3", unit) })
	}
	log := onMachine(t, shared.lab.Machine("cp3"),
		"journalctl --no-pager -o cat -u etcd-liveness -u kube-liveness | grep 'it is killed' || :")
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

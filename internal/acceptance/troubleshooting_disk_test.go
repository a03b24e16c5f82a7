package acceptance

import (
	"fmt"
	"strings"
	"testing"
)

// slowDisk: something else writes to the disk of etcd, which is slow. Without it, nothing else is as busy.
func (s symptoms) slowDisk(t *testing.T) {
	m := shared.lab.Machine("cp1")
	t.Cleanup(func() { _ = m.SlowDisk(0) })
	if err := m.SlowDisk(8); err != nil {
		t.Fatal(err)
	}
	onMachine(t, m, "systemd-run --quiet --unit=writer dd if=/dev/zero of=/var/tmp/writer bs=64K count=4000 oflag=dsync")
	out := s.on(t, "cp1", showDisk)
	if err := m.SlowDisk(0); err != nil {
		t.Fatal(err)
	}
	onMachine(t, m, "systemctl stop writer; systemctl reset-failed writer 2>/dev/null; rm -f /var/tmp/writer")
	repaired := s.on(t, "cp1", showDisk)
	onMachine(t, m, "rm -f /tmp/written /tmp/flushes")
	if strings.Contains(repaired, " dd") {
		t.Errorf("what wrote is stopped, and is still shown:\n%s", repaired)
	}
	flushes, writers, _ := strings.Cut(out, "\n")
	var count, bound float64
	if _, err := fmt.Sscanf(flushes, "99 %% of %f flushes take up to %f s", &count, &bound); err != nil || bound < 0.1 {
		t.Errorf("of a slow disk, the guide's commands say: %s (%v)", flushes, err)
	}
	first, _, _ := strings.Cut(writers, "\n")
	expectContains(t, first, " dd")
	awaitRotation(t, s.names...)
}

package lab_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// writeFiles writes files in several ways, and some of them lack a flush. One file replaces
// a file that is on the disk already.
const writeFiles = `
umask 022
cd /root
echo old > replaced
sync
echo data > nothing
echo data > .whole; sync .whole; mv .whole whole; sync .
echo new > .replaced; mv .replaced replaced
sync .`

// showFiles prints name and content of these files.
const showFiles = `cd /root; for f in nothing whole replaced; do if [ -e $f ]; then echo "$f: $(cat $f)"; fi; done`

// TestPowerCut: after a power cut, a machine's disk has what was flushed, and nothing else.
// A machine that is only killed keeps everything.
func TestPowerCut(t *testing.T) {
	l := upWith(t, lab.Config{Name: labName("cut"), Subnet: subnet, Machines: []string{"a"}, DiskImages: true})
	m := l.Machine("a")
	before := id(t, m)
	for _, test := range []struct {
		name string
		off  func() error
		want string
	}{
		{"killed", func() error { return m.PowerOff(t.Context()) }, "nothing: data\nwhole: data\nreplaced: new\n"},
		{"power cut", func() error { return m.CutPower(t.Context()) }, "nothing: \nwhole: data\nreplaced: \n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			sh(t, m, "rm -f /root/nothing /root/whole /root/replaced; sync; "+writeFiles)
			start := time.Now()
			if err := test.off(); err != nil {
				t.Fatal(err)
			}
			if running, err := m.Running(); err != nil || running {
				t.Fatalf("running = %v, %v", running, err)
			}
			t.Logf("off after %s", time.Since(start).Round(time.Millisecond))
			if err := m.Boot(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Logf("on again after %s", time.Since(start).Round(time.Millisecond))
			if got := sh(t, m, showFiles); got != test.want {
				t.Errorf("files: %q, want %q", got, test.want)
			}
			if after := id(t, m); after != before || sh(t, m, "cat /etc/machine-id") != after+"\n" {
				t.Errorf("the machine id changed from %s to %s", before, after)
			}
		})
	}
	if err := m.PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.CutPower(t.Context()); err == nil || !strings.Contains(err.Error(), "off") {
		t.Errorf("a machine that is off has its power cut: %v", err)
	}
}

// TestPowerCutUnsynced: without any flush, names are lost too, and so are directories and
// removals.
func TestPowerCutUnsynced(t *testing.T) {
	l := up(t, "uncut", "a")
	m := l.Machine("a")
	if err := m.CutPower(t.Context()); err == nil {
		t.Fatal("the power of a machine without an image was cut")
	}
	sh(t, m, "true") // it is still on
	if err := m.RebuildOnImage(t.Context()); err != nil {
		t.Fatal(err)
	}
	sh(t, m, "cd /root; echo data > removed; sync; mkdir made; mv removed made; echo data > written")
	if err := m.CutPower(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, m, "cd /root; ls; cat removed"); got != "removed\ndata\n" {
		t.Errorf("files: %q, want only the one that was flushed", got)
	}
	if err := l.Add(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	sh(t, m, "getent hosts b")
	if err := m.CutPower(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	sh(t, m, "getent hosts b")
	destroy(t, l.Name)
	if rests := leftovers(t, l.Name); len(rests) > 0 {
		t.Errorf("left over: %s", strings.Join(rests, "; "))
	}
}

// TestStopDisk: what writes waits until the disk is resumed, and what reads does not. A machine whose disk hangs can be
// switched off, and its lab destroyed.
func TestStopDisk(t *testing.T) {
	l := upWith(t, lab.Config{Name: labName("stop"), Subnet: subnet, Machines: []string{"a"}, DiskImages: true})
	m := l.Machine("a")
	// Each loop notes when it goes on, in memory.
	loop := "setsid sh -c 'while %s; do cut -d \" \" -f 1 /proc/uptime >>/run/%s; sleep 0.1; done' " +
		">/dev/null 2>&1 </dev/null &\n"
	sh(t, m, "echo begin >/root/file\n"+fmt.Sprintf(loop, "cat /root/file >/dev/null", "reads")+
		fmt.Sprintf(loop, "echo more >>/root/file", "writes")+
		"until [ -s /run/reads ] && [ -s /run/writes ]; do sleep 0.1; done")
	if err := m.StopDisk(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Second) // nobody can log in
	if err := m.ResumeDisk(); err != nil {
		t.Fatal(err)
	}
	longest := func(file string) float64 {
		last, gap := 0.0, 0.0
		for _, text := range strings.Fields(sh(t, m, "cat /run/"+file)) {
			at, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			if last > 0 {
				gap = max(gap, at-last)
			}
			last = at
		}
		return gap
	}
	sh(t, m, "before=$(wc -l </run/writes); until [ $(wc -l </run/writes) -gt $before ]; do sleep 0.1; done")
	if reads, writes := longest("reads"), longest("writes"); writes < 9 || reads > 5 {
		t.Errorf("writes waited for %.1f s, and reads for %.1f s", writes, reads)
	}
	if err := m.ResumeDisk(); err == nil {
		t.Error("a disk that works was resumed")
	}
	if err := m.StopDisk(); err != nil {
		t.Fatal(err)
	}
	if err := m.PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(m.Boot(t.Context()), m.StopDisk()); err != nil {
		t.Fatal(err)
	}
	destroy(t, l.Name)
}

// TestSlowDisk: a flush takes as long as the writes that are allowed.
func TestSlowDisk(t *testing.T) {
	l := upWith(t, lab.Config{Name: labName("slow"), Subnet: subnet, Machines: []string{"a"}, DiskImages: true})
	m := l.Machine("a")
	flushes := func() time.Duration {
		begun := time.Now()
		sh(t, m, "dd if=/dev/zero of=/root/flushed bs=4k count=8 oflag=dsync conv=notrunc 2>/dev/null")
		return time.Since(begun)
	}
	flushes()
	if err := m.SlowDisk(2); err != nil {
		t.Fatal(err)
	}
	if took := flushes(); took < 3*time.Second {
		t.Errorf("eight flushes at two a second took %s", took)
	}
	if err := m.SlowDisk(0); err != nil {
		t.Fatal(err)
	}
	if took := flushes(); took > 2*time.Second {
		t.Errorf("eight flushes took %s", took)
	}
}

package liveness

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestAwake probes a real process: one that runs again and again, and one that was stopped.
func TestAwake(t *testing.T) {
	functions, _, cut := strings.Cut(string(round), "\nunits=$(")
	if !cut {
		t.Fatal("round.sh has another form")
	}
	process := exec.Command("sh", "-c", "while :; do sleep 0.1; done")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	signal := func(s syscall.Signal) {
		if err := process.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	method := Awake(filepath.Join(dir, "pid"), filepath.Join(dir, "stopped"), filepath.Join(dir, "operstate"))
	expect := func(what string, want bool) {
		t.Helper()
		err := exec.Command("sh", "-c", "timeout=2\n"+functions+"\nanswers "+method).Run()
		if (err == nil) != want {
			t.Errorf("%s: answers %t, want %t (%v)", what, err == nil, want, err)
		}
	}
	expect("no process yet", false)
	write("pid", strconv.Itoa(process.Process.Pid))
	write("stopped", "0")
	write("operstate", "up")
	expect("runs", true)
	signal(syscall.SIGSTOP)
	expect("stopped", false)
	write("operstate", "down")
	expect("its interface is down", true)
	write("operstate", "up")
	write("stopped", "1")
	expect("it may rest", true)
	write("stopped", "0")
	signal(syscall.SIGCONT)
	expect("goes on", true)
	write("pid", "$(reboot)")
	expect("not a process", false)
}

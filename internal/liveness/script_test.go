package liveness

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// functions returns what round.sh defines, without its round.
func functions(t *testing.T) string {
	t.Helper()
	text, _, cut := strings.Cut(string(round), "\nunits=$(")
	if !cut {
		t.Fatal("round.sh has another form")
	}
	return text
}

// TestHangs: with the lock, a component that answers again is not what hangs.
func TestHangs(t *testing.T) {
	if _, err := exec.LookPath(program); err != nil {
		testrun.Missing(t, program+" is not installed")
	}
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer server.Close()
	ask := func() string {
		t.Helper()
		out, err := exec.Command("sh", "-c", "timeout=2\n"+functions(t)+"\nlock() { :; }\nlive="+server.URL+
			"\nif may_server; then echo killed; else echo \"$reason\"; fi").CombinedOutput()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	if got := ask(); got != "it answers again" {
		t.Errorf("a component that answers: %q", got)
	}
	status = http.StatusInternalServerError
	if got := ask(); got != "killed" {
		t.Errorf("a component that fails: %q", got)
	}
	server.Close()
	if got := ask(); got != "killed" {
		t.Errorf("a component that does not answer: %q", got)
	}
}

// TestAwake probes a real process: one that runs again and again, and one that was stopped.
func TestAwake(t *testing.T) {
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
		err := exec.Command("sh", "-c", "timeout=2\n"+functions(t)+"\nanswers "+method).Run()
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

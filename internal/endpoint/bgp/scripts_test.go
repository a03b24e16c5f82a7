package bgp

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// standIns are programs that need what this computer has not. $route has the state of the route. The API server does
// not listen while the file $stopped exists.
var standIns = map[string]string{
	"birdc": `shift 2
case $* in
'show protocols endpoint') echo "endpoint   Direct     ---        $(cat "$route")     10:00:00  " ;;
'enable endpoint') echo up >"$route" ;;
'disable endpoint') echo down >"$route" ;;
esac`,
	"curl":           `[ ! -e "$stopped" ] || exit 7; echo 200`,
	"systemd-notify": ":",
	"systemctl":      ":",
}

// TestLockedOut runs the health check while somebody holds the lock of the endpoint, as a change of the machine whose
// disk is slow. An address whose API server is ready stays announced. One whose API server has stopped is withdrawn.
func TestLockedOut(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, content string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(at(name), []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, script := range standIns {
		write(name, "#!/bin/sh\n"+script+"\n", 0o755)
	}
	text := renderHealth(testSpec().Registration(), netip.MustParseAddr("10.0.0.11"))
	write("health", strings.NewReplacer(configDir, dir, socketPath, at("ctl")).Replace(text), 0o600)
	write("registered", "", 0o600)
	write("route", "down\n", 0o600)
	listener, err := net.Listen("unix", at("ctl")) //nolint:noctx // nobody connects
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()

	health := exec.CommandContext(t.Context(), "/bin/sh", "health", "watch")
	health.Dir = dir
	health.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "route=" + at("route"), "stopped=" + at("stopped")}
	health.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := health.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- health.Wait() }()
	t.Cleanup(func() { _ = syscall.Kill(-health.Process.Pid, syscall.SIGKILL) })
	route := func() string {
		text, _ := os.ReadFile(at("route"))
		return strings.TrimSpace(string(text))
	}
	await := func(wanted string) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); route() != wanted; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the route is never %s", wanted)
			}
		}
	}
	await("up")
	lock, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		t.Fatalf("the health check has ended: %v", err)
	case <-time.After(7 * time.Second):
	}
	if route() != "up" {
		t.Error("the address was withdrawn, although the API server is ready")
	}
	write("stopped", "", 0o600)
	await("down")
}

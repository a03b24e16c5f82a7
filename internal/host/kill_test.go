package host

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// started starts a process for a test.
func started(t *testing.T, uid uint32, environment []string, words ...string) int {
	t.Helper()
	command := exec.Command(words[0], words[1:]...)
	command.Env = append([]string{"PATH=" + os.Getenv("PATH")}, environment...)
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if uid != 0 {
		command.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: uid}
	}
	must(t, command.Start())
	pid := command.Process.Pid
	t.Cleanup(func() {
		_ = syscall.Kill(-pid, syscall.SIGKILL) // its session, which includes what it has started
		_, _ = command.Process.Wait()
	})
	eventually(t, "the process runs its program", func() bool {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		return err == nil && bytes.Equal(text, []byte(strings.Join(words, "\x00")+"\x00"))
	})
	return pid
}

func exited(pid int) bool { return !alive(pid) }

// TestKillMatchesWholeTokens: only processes with exactly the token are killed.
func TestKillMatchesWholeTokens(t *testing.T) {
	_, h := newMachine(t)
	token, other := newToken(), newToken()
	entry := tokenVariable + "=" + token
	line := "exec env LC_ALL=C PATH=" + remotePath + " " + entry + " sh -euc true kube"
	const forever = "sleep 300; :"
	killed := map[string]int{
		"environment":     started(t, 0, []string{entry}, "sleep", "300"),
		"with others":     started(t, 0, []string{"A=b", entry, "C=d"}, "sleep", "300"),
		"an argument":     started(t, 0, nil, "sh", "-c", forever, entry),
		"the login shell": started(t, 0, nil, "sh", "-c", forever, line),
		"before it is root": started(t, 0, nil, "sh", "-c", forever, strings.Replace(line, "exec env", "exec sudo -n env",
			1)),
	}
	left := map[string]int{
		"another token":     started(t, 0, []string{tokenVariable + "=" + other}, "sleep", "300"),
		"a longer token":    started(t, 0, []string{entry + "0"}, "sleep", "300"),
		"a longer name":     started(t, 0, []string{"X" + entry}, "sleep", "300"),
		"a value":           started(t, 0, []string{"NOTE=" + entry}, "sleep", "300"),
		"a line of a value": started(t, 0, []string{"NOTE=a\n" + entry + "\nb"}, "sleep", "300"),
		"a part of a word":  started(t, 0, nil, "sh", "-c", forever, "see "+entry),
		"a path":            started(t, 0, nil, "sh", "-c", forever, "/tmp/"+entry),
		"a log of the line": started(t, 0, nil, "sh", "-c", forever, "ran: "+line),
	}
	if os.Geteuid() == 0 {
		for name, uid := range map[string]uint32{"nobody's environment": 65534, "a user's": 1234} {
			left[name] = started(t, uid, []string{entry}, "sleep", "300")
			left[name+", argument"] = started(t, uid, nil, "sh", "-c", forever, entry)
			left[name+", login shell"] = started(t, uid, nil, "sh", "-c", forever, line)
		}
	}
	begun := time.Now()
	_, err := h.Run(t.Context(), Command{Script: Script(killScript(token))})
	must(t, err)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	for name, pid := range killed {
		eventually(t, name+" is killed", func() bool { return exited(pid) })
	}
	for name, pid := range left {
		if exited(pid) {
			t.Errorf("%s: was killed", name)
		}
	}
}

// TestKillStaleCommands: if a process of another user poses as an orphaned command, neither it
// nor the process it names is killed.
func TestKillStaleCommands(t *testing.T) {
	if os.Geteuid() != 0 {
		testrun.Missing(t, "processes of other users need root")
	}
	_, h := newMachine(t)
	activeToken, staleToken := newToken(), newToken()
	command := started(t, 0, []string{tokenVariable + "=" + activeToken}, "sleep", "300") // its parent is alive: this test
	// Both become children of process 1, or of a subreaper; with a subreaper nothing can be
	// tested.
	spoofed := startProcess(t, 65534, tokenVariable+"="+activeToken)
	real := startProcess(t, 0, tokenVariable+"="+staleToken)
	_, err := h.Run(t.Context(), Command{Script: "true"}) // the first change through a connection
	must(t, err)
	eventually(t, "the orphan is killed", func() bool { return exited(real) })
	if exited(spoofed) {
		t.Error("a process of another user was killed")
	}
	if exited(command) {
		t.Error("a command whose token another user's process had was killed")
	}
}

// startProcess starts a process whose parent has ended.
func startProcess(t *testing.T, uid uint32, environment string) int {
	t.Helper()
	command := exec.Command("sh", "-c", "sleep 300 >/dev/null 2>&1 & echo $!")
	command.Env = []string{"PATH=" + os.Getenv("PATH"), environment}
	if uid != 0 {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	out, err := command.Output()
	must(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	must(t, err)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	must(t, err)
	if !strings.Contains(string(status), "\nPPid:\t1\n") {
		testrun.Elsewhere(t, "orphans do not become children of process 1 here")
	}
	return pid
}

package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestRun(t *testing.T) {
	_, h := newMachine(t)
	tests := map[string]struct {
		script, stdin, want string
	}{
		"output":          {script: "echo a; echo b", want: "a\nb\n"},
		"quoting":         {script: `printf '%s|' 'it'"'"'s' "\$x" '!' '*'`, want: "it's|$x|!|*|"},
		"several lines":   {script: "x=1\n# comment\nif true; then\n  echo $x\nfi", want: "1\n"},
		"standard input":  {script: "cat; echo end", stdin: "line\n", want: "line\nend\n"},
		"unread input":    {script: "echo done", stdin: strings.Repeat("x", 1<<20), want: "done\n"},
		"no input":        {script: "cat; echo end", want: "end\n"},
		"large input":     {script: "wc -c", stdin: strings.Repeat("x", 5<<20), want: fmt.Sprintln(5 << 20)},
		"locale and path": {script: "echo $LC_ALL $PATH", want: "C " + remotePath + "\n"},
		"stderr apart":    {script: "echo no >&2; echo yes", want: "yes\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := Command{Script: Script(test.script)}
			if test.stdin != "" {
				c.Stdin = strings.NewReader(test.stdin)
			}
			out, err := h.Run(t.Context(), c)
			if err != nil || out != test.want {
				t.Errorf("%q, %v, want %q", out, err, test.want)
			}
		})
	}
}

func TestRunFailures(t *testing.T) {
	_, h := newMachine(t)
	for script, want := range map[string]ExitError{
		"echo why >&2; exit 3": {Code: 3, Stderr: "why"},
		"false; echo reached":  {Code: 1},
		": $nothing":           {Code: 2, Stderr: "kube: 1: nothing: parameter not set"},
		"for i in $(seq 3000); do echo line $i; done >&2; exit 1": {Code: 1},
	} {
		_, err := h.Run(t.Context(), Command{Script: Script(script)})
		var exit *ExitError
		if !errors.As(err, &exit) {
			t.Fatalf("%s: %v, want an ExitError", script, err)
		}
		if exit.Code != want.Code || exit.Address != machineName {
			t.Errorf("%s: %+v", script, exit)
		}
		if want.Stderr != "" && exit.Stderr != want.Stderr {
			t.Errorf("%s: stderr %q, want %q", script, exit.Stderr, want.Stderr)
		}
		if strings.Contains(script, "seq") && (len(exit.Stderr) > maxTail || !strings.HasSuffix(exit.Stderr, "\nline 3000") ||
			!strings.HasPrefix(exit.Stderr, "line ")) {
			t.Errorf("tail of standard error is %q", exit.Stderr)
		}
		if errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: a failing command is not an unreachable machine", script)
		}
	}
	_, err := h.Run(t.Context(), Command{Script: Script(strings.Repeat("#", maxScript+1))})
	mustContain(t, err, "command line")
	_, err = h.Run(t.Context(), Command{Script: "cat", Stdin: io.MultiReader(strings.NewReader("x"), failingReader{})})
	mustContain(t, err, "disk on fire")
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errors.New("disk on fire") }

func TestOutputLimit(t *testing.T) {
	s, h := newMachine(t)
	_, err := h.Run(t.Context(), Command{Script: "exec cat /dev/zero"})
	if !errors.Is(err, errOutputTooLong) {
		t.Fatalf("error %v, want errOutputTooLong", err)
	}
	eventually(t, "the session is free again", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.sessions == 0
	})
}

// TestCancelEndsRemoteProcesses: cancelling ends the command and its children in other process
// groups, and nothing else.
func TestCancelEndsRemoteProcesses(t *testing.T) {
	_, h := newMachine(t)
	pids := t.TempDir() + "/pids"
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := h.Run(ctx, Command{Script: Script("sleep 300 & echo $! >>" + pids + "\nsetsid sleep 300 & echo $! >>" +
			pids + "\necho $$ >>" + pids + "\nsleep 300")})
		done <- err
	}()
	var running []int
	eventually(t, "the command runs", func() bool {
		text, _ := os.ReadFile(pids)
		running = nil
		for word := range strings.FieldsSeq(string(text)) {
			pid, _ := strconv.Atoi(word)
			running = append(running, pid)
		}
		return len(running) == 3
	})
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want context.Canceled", err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("Run does not return")
	}
	for _, pid := range running {
		eventually(t, fmt.Sprintf("process %d is gone", pid), func() bool { return !alive(pid) })
	}
	if out, err := h.Run(t.Context(), Command{Script: "echo fine"}); err != nil || out != "fine\n" {
		t.Errorf("the connection after a cancelled command: %q, %v", out, err)
	}
}

// alive reports whether a process runs. A zombie does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestCancelWithAllSessionsBusy(t *testing.T) {
	s, h := newMachine(t)
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for range maxSessions + 4 {
		callers.Go(func() {
			if _, err := h.Run(ctx, Command{Script: "sleep 300"}); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want context.Canceled", err)
			}
		})
	}
	eventually(t, "all sessions run", func() bool { return len(s.commandLines()) == maxSessions })
	cancel()
	callers.Wait()
	if _, err := h.Run(t.Context(), Command{Script: "true"}); err != nil {
		t.Fatal(err)
	}
	if s.connectionCount() != 1 {
		t.Errorf("%d connections, want 1", s.connectionCount())
	}
}

func TestAround(t *testing.T) {
	client := newClient(t)
	s := newTestServer(t, client.signer.PublicKey(), nil)
	var calls []string
	config := configFor(s, client)
	config.Around = func(address, summary string) (running, ended func()) {
		calls = append(calls, "before "+address+" "+summary)
		return func() { calls = append(calls, "during "+address+" "+summary) },
			func() { calls = append(calls, "after "+address+" "+summary) }
	}
	h := openPool(t, config).Host(Target{machineName})
	if _, err := h.Run(t.Context(), Command{Script: "true\necho second line"}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Observe(t.Context(), Query{Files: []string{"/etc/hostname"}}); err != nil {
		t.Fatal(err)
	}
	h.AroundRequest("other.test", "etcd MemberAdd")()
	want := []string{
		"before machine.test run true", "during machine.test run true", "after machine.test run true",
		"before machine.test observe the machine", "during machine.test observe the machine",
		"after machine.test observe the machine",
		"before other.test etcd MemberAdd", "after other.test etcd MemberAdd",
	}
	if strings.Join(calls, "\n") != strings.Join(want, "\n") {
		t.Errorf("saw\n%s\nwant\n%s", strings.Join(calls, "\n"), strings.Join(want, "\n"))
	}
}

// TestCancelAtOnce cancels commands at every stage of their start: none may remain.
func TestCancelAtOnce(t *testing.T) {
	_, h := newMachine(t)
	if _, err := h.Run(t.Context(), Command{Script: "true"}); err != nil {
		t.Fatal(err)
	}
	marker := "kube-cancel-test-" + newToken()
	for delay := time.Duration(0); delay < 12*time.Millisecond; delay += 400 * time.Microsecond {
		ctx, cancel := context.WithTimeout(t.Context(), delay)
		_, err := h.Run(ctx, Command{Script: Script("sleep 300; : " + marker)})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("after %v: %v", delay, err)
		}
	}
	eventually(t, "all commands are gone", func() bool {
		out, err := h.Run(t.Context(),
			Command{Script: Script("echo " + marker[:5] + "'" + marker[5:] + "' | grep -laFsf - /proc/[0-9]*/cmdline || true")})
		return err == nil && out == ""
	})
}

package host

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// processesWith returns the processes of a program that have an entry in their environment.
func processesWith(t *testing.T, program, entry string) (all []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		environment, _ := os.ReadFile(file) // of a process that has ended: nothing
		name, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "comm"))
		if strings.Contains("\x00"+string(environment), "\x00"+entry+"\x00") && string(name) == program+"\n" {
			process, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, process)
		}
	}
	return all
}

// underLease takes the lease and starts a command under it, which runs until it is ended. It returns the leases and
// where the command's error arrives.
func underLease(t *testing.T, s *testServer, h *Host) (held *Leases, failed chan error) {
	t.Helper()
	held, err := TakeLeases(t.Context(), []LeaseTaker{h}, testLease, LeaseOptions{What: "etcd"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(held.Release)
	failed = make(chan error, 1)
	go func() {
		_, err := h.Run(held.Context(t.Context()), Command{Script: "sleep 4716 & touch /run/begun; sleep 4717"})
		failed <- err
	}()
	eventually(t, "the command runs", func() bool {
		_, err := os.Stat(filepath.Join(s.private, "run/begun"))
		return err == nil
	})
	return held, failed
}

// endHeartbeats ends the lease on the machine as if its time was over. For a moment after a takeover and after each
// heartbeat, no process waits for the next one.
func endHeartbeats(t *testing.T, token string) {
	t.Helper()
	eventually(t, "the lease waits for heartbeats in one process, which ends", func() bool {
		waiting := processesWith(t, "timeout", tokenVariable+"="+token)
		return len(waiting) == 1 && syscall.Kill(waiting[0], syscall.SIGKILL) == nil
	})
}

// takenBy returns the lease as another process gets it in the end.
func takenBy(t *testing.T, other *Host) *Lease {
	t.Helper()
	var taken *Lease
	eventually(t, "another process can take the lease", func() bool {
		var err error
		taken, err = other.TakeLease(t.Context(), testLease, "process 2", nil)
		return err == nil
	})
	t.Cleanup(taken.release)
	return taken
}

// TestLeaseEndsItsCommands: a process that waits for a lease while its holder is killed does not meet the holder's
// commands any more.
func TestLeaseEndsItsCommands(t *testing.T) {
	s, one, other := newLeasedMachine(t)
	held, failed := underLease(t, s, one)
	token := held.held[machineName].token
	if _, err := other.TakeLease(t.Context(), testLease, "process 2", nil); !errors.As(err, new(*HeldError)) {
		t.Fatalf("error %v, want that process 1 holds it", err)
	}
	s.mu.Lock()
	first := s.connections[0]
	s.mu.Unlock()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, ErrUnreachable) {
		t.Errorf("error %v, want that the connection was lost", err)
	}
	takenBy(t, other)
	if left := processesWith(t, "sleep", leasesVariable+"="+token); len(left) > 0 {
		t.Errorf("processes %v of the former holder still run", left)
	}
}

// TestCommandEndsWithItsLease: a command of a holder that was stopped for too long ends when another process takes the
// lease, and says so. Until then it goes on, and so does that of a holder that has the lease back.
func TestCommandEndsWithItsLease(t *testing.T) {
	s, one, other := newLeasedMachine(t)
	held, failed := underLease(t, s, one)
	first := held.held[machineName].token
	endHeartbeats(t, first)
	eventually(t, "the lease has ended", func() bool { return !held.Covers(machineName) })
	if err := held.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if running := processesWith(t, "sleep", leasesVariable+"="+first); len(running) != 2 {
		t.Errorf("processes %v run after the holder has taken the lease again, want both", running)
	}
	endHeartbeats(t, held.held[machineName].token)
	takenBy(t, other)
	if err := <-failed; !errors.Is(err, ErrLeaseLost) {
		t.Errorf("error %v, want that the lease was lost", err)
	}
}

// TestTakeOverCutOff: what a process under a former lease has left running ends with the second takeover too, if the
// first was cut off before it had ended that.
func TestTakeOverCutOff(t *testing.T) {
	s, one, other := newLeasedMachine(t)
	held, failed := underLease(t, s, one)
	token := held.held[machineName].token
	endHeartbeats(t, token)
	eventually(t, "the lease has ended", func() bool { return !held.Covers(machineName) })
	file := filepath.Join(s.private, "run/kube/leases", testLease)
	if err := os.WriteFile(file, []byte("0123456789abcdef\nprocess 3\n"+token+" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	takenBy(t, other)
	if err := <-failed; !errors.Is(err, ErrLeaseLost) {
		t.Errorf("error %v, want that the lease was lost", err)
	}
	if left := processesWith(t, "sleep", leasesVariable+"="+token); len(left) > 0 {
		t.Errorf("processes %v still run", left)
	}
	if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), token) {
		t.Errorf("the file is %q (%v), want it without what has ended", text, err)
	}
}

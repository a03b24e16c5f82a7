package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

const testLease = "etcd-0123"

// newProcess returns another pool that reaches the same machine, like a second process.
func newProcess(t *testing.T, s *testServer, client testClient) *Host {
	t.Helper()
	return openPool(t, configFor(s, client)).Host(Target{Address: machineName})
}

// newLeasedMachine returns a machine and two processes that reach it.
func newLeasedMachine(t *testing.T) (s *testServer, one, other *Host) {
	t.Helper()
	client := newClient(t)
	s = newTestServer(t, client.signer.PublicKey(), nil)
	s.isolate()
	return s, newProcess(t, s, client), newProcess(t, s, client)
}

func TestLeaseExcludesAnotherProcess(t *testing.T) {
	_, one, other := newLeasedMachine(t)
	held, err := one.TakeLease(t.Context(), testLease, "process 1", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = other.TakeLease(t.Context(), testLease, "process 2", nil)
	var conflict *HeldError
	if !errors.As(err, &conflict) || conflict.Holder != "process 1" {
		t.Fatalf("error %v, want that process 1 holds it", err)
	}
	if another, err := other.TakeLease(t.Context(), "replicas-0123", "process 2", nil); err != nil {
		t.Errorf("a lease of another name: %v", err)
	} else {
		another.release()
	}
	held.release()
	if held.Held() {
		t.Error("a lease that was released is still held")
	}
	taken, err := other.TakeLease(t.Context(), testLease, "process 2", nil)
	if err != nil {
		t.Fatal(err)
	}
	taken.release()
}

// TestLeaseEndsWithItsConnection: a process that is killed leaves no lease behind.
func TestLeaseEndsWithItsConnection(t *testing.T) {
	s, one, other := newLeasedMachine(t)
	held, err := one.TakeLease(t.Context(), testLease, "process 1", nil)
	if err != nil {
		t.Fatal(err)
	}
	s.cut()
	eventually(t, "the lease is lost", func() bool { return !held.Held() })
	eventually(t, "the lease can be taken again", func() bool {
		taken, err := other.TakeLease(t.Context(), testLease, "process 2", nil)
		if err == nil {
			taken.release()
		}
		return err == nil
	})
}

// TestLeaseWithinOneProcess: a held lease is not ended by a second attempt to take it through
// the same connection.
func TestLeaseWithinOneProcess(t *testing.T) {
	_, one, _ := newLeasedMachine(t)
	first, err := one.TakeLease(t.Context(), testLease, "first", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := one.TakeLease(t.Context(), testLease, "second", nil); !errors.As(err, new(*HeldError)) || !first.Held() {
		t.Errorf("error %v, want one that the first holds it, and that it still does (%t)", err, first.Held())
	}
	first.release()
}

// TestLeaseFencesChanges: a process that was stopped for so long that another one has taken
// over changes nothing when it continues.
func TestLeaseFencesChanges(t *testing.T) {
	s, one, other := newLeasedMachine(t)
	held, err := TakeLeases(t.Context(), []LeaseTaker{one}, testLease, LeaseOptions{What: "etcd"})
	if err != nil {
		t.Fatal(err)
	}
	ctx := held.Context(t.Context())
	if _, err := one.Run(ctx, Command{Script: "touch /run/by-one"}); err != nil {
		t.Fatalf("a change under the lease: %v", err)
	}
	// The machine gives the lease to another process without notifying this one.
	if err := os.WriteFile(filepath.Join(s.private, "run/kube/leases", testLease), []byte("another\nprocess 2\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := one.Run(ctx, Command{Script: "touch /run/by-one-again"}); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("error %v, want that the lease was lost", err)
	}
	if _, err := one.Apply(ctx,
		Change{Files: []File{{Path: "/run/applied", Content: []byte("x"), Mode: 0o600}}}); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("error %v, want that the lease was lost", err)
	}
	for _, name := range []string{"by-one-again", "applied"} {
		if _, err := os.Stat(filepath.Join(s.private, "run", name)); err == nil {
			t.Errorf("%s was made without the lease", name)
		}
	}
	if _, err := other.Run(ctx, Command{Script: ":"}); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("error %v: the fence belongs to the machine, whoever runs the script", err)
	}
	held.Release()
}

func TestLeasesWaitForEachOther(t *testing.T) {
	_, one, other := newLeasedMachine(t)
	first, err := TakeLeases(t.Context(), []LeaseTaker{one}, testLease,
		LeaseOptions{What: "etcd", Quorum: []string{machineName}})
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := TakeLeases(short, []LeaseTaker{other}, testLease, LeaseOptions{What: "etcd"}); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Errorf("error %v, want one of the time that is over", err)
	}
	got := make(chan error, 1)
	go func() {
		second, err := TakeLeases(t.Context(), []LeaseTaker{other}, testLease, LeaseOptions{What: "etcd"})
		if err == nil {
			second.Release()
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatalf("taken beside the first one: %v", err)
	case <-time.After(700 * time.Millisecond): // longer than one retry
	}
	if err := first.Check(); err != nil {
		t.Error(err)
	}
	first.Release()
	if err := <-got; err != nil {
		t.Error(err)
	}
	if err := first.Check(); err == nil {
		t.Error("leases that were released pass the check")
	}
}

func TestLeasesNeedAMajority(t *testing.T) {
	_, one, _ := newLeasedMachine(t)
	quorum := []string{machineName, "gone-1", "gone-2"}
	_, err := TakeLeases(t.Context(), []LeaseTaker{one, unreachableMachine("gone-1"), unreachableMachine("gone-2")},
		testLease, LeaseOptions{What: "etcd", Quorum: quorum})
	if !errors.Is(err, ErrUnreachable) {
		t.Errorf("error %v, want that too few machines are reached", err)
	}
	if _, err := TakeLeases(t.Context(), []LeaseTaker{one, unreachableMachine("gone-1")}, testLease,
		LeaseOptions{All: true}); !errors.Is(err, ErrUnreachable) {
		t.Errorf("error %v, want that one machine is not reached", err)
	}
	l, err := TakeLeases(t.Context(), []LeaseTaker{one, unreachableMachine("gone-1")}, testLease,
		LeaseOptions{What: "etcd"})
	if err != nil {
		t.Fatal(err)
	}
	if !l.Covers(machineName) || l.Covers("gone-1") {
		t.Errorf("held on %v", l.Addresses())
	}
	l.Release()
}

type unreachableMachine string

func (m unreachableMachine) Address() string { return string(m) }
func (m unreachableMachine) TakeLease(context.Context, string, string, *Lease) (*Lease, error) {
	return nil, ErrUnreachable
}

// TestLeasesSurviveReconnect: a connection that is lost and reopened does not lose the lease,
// unless another process has held it meanwhile.
func TestLeasesSurviveReconnect(t *testing.T) {
	s, one, other := newLeasedMachine(t)
	held, err := TakeLeases(t.Context(), []LeaseTaker{one}, testLease,
		LeaseOptions{What: "etcd", Quorum: []string{machineName}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := held.Context(t.Context())
	s.cut()
	eventually(t, "the lease is lost", func() bool { return !held.Covers(machineName) })
	if _, err := one.Run(ctx, Command{Script: "touch /run/again"}); err != nil {
		t.Fatalf("a change through a new connection: %v", err)
	}
	s.cut()
	eventually(t, "the lease is lost", func() bool { return !held.Covers(machineName) })
	between, err := TakeLeases(t.Context(), []LeaseTaker{other}, testLease, LeaseOptions{What: "etcd"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := one.Run(ctx, Command{Script: "touch /run/never"}); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("error %v while another process holds the lease", err)
	}
	between.Release()
	if _, err := one.Run(ctx, Command{Script: "touch /run/never"}); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("error %v after another process has held the lease", err)
	}
	if _, err := os.Stat(filepath.Join(s.private, "run/never")); err == nil {
		t.Error("a change was made after another process had held the lease")
	}
	held.Release()
}

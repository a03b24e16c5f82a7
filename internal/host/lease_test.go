package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
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

// TestFailedTakeKeepsEarlierLeases: an operation that gives up ends no lease on which others of the process rely.
func TestFailedTakeKeepsEarlierLeases(t *testing.T) {
	_, one, _ := newLeasedMachine(t)
	options := LeaseOptions{What: "what is in rotation"}
	l, err := TakeLeases(t.Context(), []LeaseTaker{one}, testLease, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Release)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	machines := []LeaseTaker{one, unreachableMachine("gone-1")}
	if err := l.Take(ended, machines, options); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that the context has ended", err)
	}
	if err := l.Take(t.Context(), machines, LeaseOptions{All: true}); !errors.Is(err, ErrUnreachable) {
		t.Errorf("error %v, want that one machine is not reached", err)
	}
	if !l.Covers(machineName) {
		t.Error("the lease from before is not held any more")
	}
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

// TestLeasesOfOneMachineWithTwoAddresses: a process does not wait for itself.
func TestLeasesOfOneMachineWithTwoAddresses(t *testing.T) {
	client := newClient(t)
	s := newTestServer(t, client.signer.PublicKey(), nil)
	s.isolate()
	const second = "second.test"
	config := configFor(s, client)
	config.Overrides[second] = config.Overrides[machineName]
	pool := openPool(t, config)
	one, same := pool.Host(Target{machineName}), pool.Host(Target{second})
	other := newProcess(t, s, client)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for name, first := range map[string][]LeaseTaker{"known later": {one}, "known at once": {one, same}} {
		held, err := TakeLeases(ctx, first, testLease, LeaseOptions{What: "etcd"})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := held.Take(ctx, []LeaseTaker{one, same}, LeaseOptions{What: "etcd", All: true}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !held.Covers(machineName) || !held.Covers(second) {
			t.Errorf("%s: held on %v", name, held.Addresses())
		}
		if err := held.Require([]string{machineName, second}); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("%s: one machine is a majority of two: %v", name, err)
		}
		if err := held.Require(nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, h := range []*Host{one, same} {
			s.cut()
			eventually(t, "the lease is lost", func() bool { return !held.Covers(machineName) && !held.Covers(second) })
			if _, err := h.Run(held.Context(ctx), Command{Script: ":"}); err != nil {
				t.Errorf("%s: a change through %s: %v", name, h.Address(), err)
			}
			if !held.Covers(machineName) || !held.Covers(second) {
				t.Errorf("%s: restored through %s, and held on %v", name, h.Address(), held.Addresses())
			}
		}
		held.Release()
		next, err := other.TakeLease(ctx, testLease, "process 2", nil)
		if err != nil {
			t.Fatalf("%s: after the release: %v", name, err)
		}
		next.release()
	}
}

// TestLeasesOfOtherMachinesSurviveReconnect: a lease that was lost with a connection is restored also if the next
// command goes to another machine, unless another process has held it meanwhile.
func TestLeasesOfOtherMachinesSurviveReconnect(t *testing.T) {
	client := newClient(t)
	config := configFor(newTestServer(t, client.signer.PublicKey(), nil), client)
	names := []string{"m1.test", "m2.test", "m3.test"}
	var servers []*testServer
	for _, name := range names {
		s := newTestServer(t, client.signer.PublicKey(), nil)
		s.isolate()
		servers = append(servers, s)
		config.Overrides[name] = configFor(s, client).Overrides[machineName]
	}
	pool, elsewhere := openPool(t, config), openPool(t, config)
	var machines []LeaseTaker
	for _, name := range names {
		machines = append(machines, pool.Host(Target{name}))
	}
	for name, c := range map[string]struct {
		on      []LeaseTaker
		options LeaseOptions
		runOn   string
	}{
		"all, and the command elsewhere": {machines[:1], LeaseOptions{All: true}, names[1]},
		"a majority of all":              {machines, LeaseOptions{Quorum: names}, names[0]},
	} {
		held, err := TakeLeases(t.Context(), c.on, testLease, c.options)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		cut := func() {
			for _, s := range servers {
				s.cut()
			}
			eventually(t, "the leases are lost", func() bool {
				return !slices.ContainsFunc(held.Addresses(), held.Covers)
			})
		}
		cut()
		ctx := held.Context(t.Context())
		failures := make(chan error)
		for range 4 { // several operations go on at the same time
			go func() {
				_, err := pool.Host(Target{c.runOn}).Run(ctx, Command{Script: ":"})
				failures <- err
			}()
		}
		for range 4 {
			if err := <-failures; err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		cut()
		for _, machine := range c.on {
			between, err := elsewhere.Host(Target{machine.Address()}).TakeLease(t.Context(), testLease, "process 2", nil)
			if err != nil {
				t.Fatal(err)
			}
			between.release()
		}
		if _, err := pool.Host(Target{c.runOn}).Run(ctx, Command{Script: ":"}); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("%s: error %v after another process has held the leases", name, err)
		}
		held.Release()
	}
}

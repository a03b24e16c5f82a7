package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// balancerMachine replaces a machine on which leases are taken.
type balancerMachine struct {
	address string

	mu   sync.Mutex
	held map[string]chan struct{} // lease → closed when it is lost
}

func (b *balancerMachine) Address() string { return b.address }

func (b *balancerMachine) TakeLease(_ context.Context, name, holder string, _ *host.Lease) (*host.Lease, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held[name] != nil {
		return nil, &host.HeldError{Address: b.address, Name: name, Holder: holder}
	}
	lost := make(chan struct{})
	if b.held == nil {
		b.held = map[string]chan struct{}{}
	}
	b.held[name] = lost
	return host.NewLease(b.address, name, "token", lost, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.held[name] == lost {
			delete(b.held, name)
			close(lost)
		}
	}), nil
}

// holds reports whether the lease is held.
func (b *balancerMachine) holds(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held[name] != nil
}

// processes returns two coordinators that represent two processes, and replicas cp1 and cp2 of
// one control plane as both see them.
func processes(t *testing.T) (one, other *Replicas, cp1, cp2 Spec, balancer *balancerMachine) {
	t.Helper()
	balancer = &balancerMachine{address: "10.0.0.21"}
	cp1 = calm(t)
	cp1.Registrar = &recordingRegistrar{
		balancers: []host.LeaseTaker{balancer},
		members:   map[string]string{"cp1": cp1.ServingAddress(), "cp2": "10.0.0.12:6443"},
	}
	cp2 = cp1
	cp2.Name = "cp2"
	return NewReplicas(nil), NewReplicas(nil), cp1, cp2, balancer
}

// TestOneProcessAtATime: while one process changes a replica, the other one neither changes
// replicas nor returns any to rotation.
func TestOneProcessAtATime(t *testing.T) {
	one, other, cp1, cp2, _ := processes(t)
	lock, drained, err := one.drain(t.Context(), cp1, drainOptions{stops: true})
	if err != nil || !drained {
		t.Fatal(drained, err)
	}
	registrar := cp1.Registrar.(*recordingRegistrar)
	registrar.out = map[string]string{"cp1": cp1.ServingAddress()} // drained, as by an interrupted change
	registrar.take()
	other.returnToRotation(t.Context(), cp2, false, time.Now().Add(time.Second))
	if calls := registrar.take(); calls != nil {
		t.Errorf("the other process did %q", calls)
	}
	stepped := make(chan error, 1)
	go func() {
		lock, _, err := other.drain(t.Context(), cp2, drainOptions{stops: true})
		if err == nil {
			lock.finish(true)
		}
		stepped <- err
	}()
	select {
	case err := <-stepped:
		t.Fatalf("the other process drained at the same time: %v", err)
	case <-time.After(time.Second):
	}
	registrar.out = nil
	lock.finish(true)
	if err := <-stepped; err != nil {
		t.Error(err)
	}
}

// TestLeaseIsKeptWhileOthersWait: the lease is kept while other operations of the process wait for
// the lock and while a replica is paused, and ends with the last of them.
func TestLeaseIsKeptWhileOthersWait(t *testing.T) {
	one, other, cp1, cp2, balancer := processes(t)
	name := clusterLeaseName(cp1.Bundle.ClusterID)
	first, err := one.changeLocks.acquire(t.Context(), cp1)
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan heldLock, 1)
	go func() {
		lock, err := one.changeLocks.acquire(t.Context(), cp2)
		if err != nil {
			t.Error(err)
		}
		second <- lock
	}()
	waiting := one.changeLocks.of(cp1.Bundle.ClusterID)
	for {
		waiting.mu.Lock()
		users := waiting.users
		waiting.mu.Unlock()
		if users == 2 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	before := balancer.held[name]
	first.finish(true)
	lock := <-second
	if balancer.held[name] != before {
		t.Error("the lease was given away between two operations of a process")
	}
	outage := one.Outage(StackedMember{Host: cp1.Host, Bundle: cp1.Bundle})
	end := outage.Open()
	outage.pause(cp1)
	lock.finish(true)
	if !balancer.holds(name) || !one.paused.has(cp1.Bundle.ClusterID, "cp1") {
		t.Error("a paused replica does not keep the lease")
	}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := other.changeLocks.acquire(short, cp2); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("another process has the lock while a replica is paused: %v", err)
	}
	if left := other.changeLocks.of(cp1.Bundle.ClusterID); left.users != 0 {
		t.Errorf("%d operations keep the lease that they did not get", left.users)
	}
	end() // without Ended: the change of the member was interrupted
	if balancer.holds(name) || one.paused.has(cp1.Bundle.ClusterID, "cp1") {
		t.Error("what a change of a member kept outlives it")
	}
}

// lostMachine is a machine on which no lease can be taken.
type lostMachine struct {
	address string
	err     error
}

func (m lostMachine) Address() string { return m.address }

func (m lostMachine) TakeLease(context.Context, string, string, *host.Lease) (*host.Lease, error) {
	return nil, m.err
}

// TestLockToStop: a replica whose etcd is restored stops also if all balancers are lost. The lease of its machine then
// keeps other processes away. A balancer that answers is not lost.
func TestLockToStop(t *testing.T) {
	one, _, cp1, _, balancer := processes(t)
	registrar := cp1.Registrar.(*recordingRegistrar)
	gone := lostMachine{"10.0.0.22", fmt.Errorf("dial: %w", host.ErrUnreachable)}
	refuses := lostMachine{"10.0.0.23", fmt.Errorf("login: %w", host.ErrAuth)}
	for name, c := range map[string]struct {
		balancers []host.LeaseTaker
		own       bool // under the lease of the machine
		fails     bool
	}{
		"one answers":      {balancers: []host.LeaseTaker{balancer, gone}},
		"all are lost":     {balancers: []host.LeaseTaker{gone, lostMachine{"10.0.0.24", gone.err}}, own: true},
		"one is refused":   {balancers: []host.LeaseTaker{gone, refuses}, fails: true},
		"no load balancer": {},
	} {
		registrar.balancers = c.balancers
		own := &balancerMachine{address: cp1.Host.Address()}
		locked, release, err := one.changeLocks.acquireToStop(t.Context(), cp1, own)
		if (err != nil) != c.fails || own.holds(machineLeaseName) != c.own {
			t.Errorf("%s: the lease of the machine is held: %v; %v", name, own.holds(machineLeaseName), err)
		}
		if err != nil {
			continue
		}
		if leases, err := host.LeasesOn(locked, cp1.Host.Address()); err != nil || (len(leases) > 0) != c.own {
			t.Errorf("%s: %d leases of the machine in force, %v", name, len(leases), err)
		}
		release()
		if own.holds(machineLeaseName) || balancer.holds(clusterLeaseName(cp1.Bundle.ClusterID)) {
			t.Errorf("%s: a lease is held when it has stopped", name)
		}
	}
}

// TestLostLease: no change is made once another process has taken over.
func TestLostLease(t *testing.T) {
	one, _, cp1, _, balancer := processes(t)
	lock, err := one.changeLocks.acquire(t.Context(), cp1)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.finish(true)
	if _, err := host.LeasesOn(lock.context(t.Context()), cp1.Host.Address()); err != nil {
		t.Errorf("held: %v", err)
	}
	balancer.mu.Lock()
	name := clusterLeaseName(cp1.Bundle.ClusterID)
	close(balancer.held[name])
	balancer.held[name] = make(chan struct{}) // another process has it now
	balancer.mu.Unlock()
	if _, err := host.LeasesOn(lock.context(t.Context()), cp1.Host.Address()); !errors.Is(err, host.ErrLeaseLost) {
		t.Errorf("lost: %v", err)
	}
}

func TestLeaseOfACluster(t *testing.T) {
	if clusterLeaseName("prod") == clusterLeaseName("stage") || clusterLeaseName("prod") == "prod" {
		t.Errorf("two clusters, or etcd and the control plane of one, share a lease: %q", clusterLeaseName("prod"))
	}
}

func TestChangeLocks(t *testing.T) {
	var locks changeLocks
	of := func(cluster, name string) Spec {
		s := calm(t)
		s.Name, s.Bundle = name, &pki.Bundle{ClusterID: cluster, ClusterName: cluster}
		return s
	}
	first, err := locks.acquire(t.Context(), of("prod", "cp1"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := locks.acquire(t.Context(), of("stage", "cp1"))
	if err != nil {
		t.Fatal(err)
	}
	other.finish(true)
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := locks.acquire(short, of("prod", "cp2")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("two replicas have the lock at once: %v", err)
	}
	first.finish(false)

	second, err := locks.acquire(t.Context(), of("prod", "cp2"))
	if err != nil {
		t.Fatal(err)
	}
	if err := second.checkEarlierFailure("cp2"); !strings.Contains(cptest.Text(err),
		`the change of replica "cp1" failed`) {
		t.Errorf("changed after a failed one: %v", err)
	}
	second.finish(true)
	third, err := locks.acquire(t.Context(), of("prod", "cp3"))
	if err != nil || third.checkEarlierFailure("cp3") == nil {
		t.Errorf("changed after a failed one, which another replica's release has cleared: %v", err)
	}
	third.finish(true)
	again, err := locks.acquire(t.Context(), of("prod", "cp1"))
	if err != nil || again.checkEarlierFailure("cp1") != nil {
		t.Errorf("the failed replica itself cannot be repaired: %v", err)
	}
	again.finish(true)
	last, err := locks.acquire(t.Context(), of("prod", "cp2"))
	if err != nil || last.checkEarlierFailure("cp2") != nil {
		t.Errorf("refused after the repair: %v", err)
	}
	last.finish(true)
}

package controlplane

import (
	"context"
	"fmt"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// changeLocks let only one replica of a control plane at a time leave rotation or change, and none
// after a change that failed. Within a process, a changeLock ensures this. Between processes, a
// lease on the machines of the load balancers does. The lock keeps the lease while any operation
// of this process has something to change. The nodes of a control plane have a lock of their own, because a drain of
// one takes minutes, in which a replica that is to be repaired must not wait. Whoever needs both takes that of the
// nodes first.
type changeLocks struct {
	mu      sync.Mutex
	byLease map[string]*changeLock // by the name of the lease
}

// changeLock is one lock of a control plane. Whoever has it may use failed, prepared and saved, and takes
// the lease.
type changeLock struct {
	what     string        // changes under it, for messages
	held     chan struct{} // full while an operation has the lock
	failed   string        // the replica whose change failed; "" if none
	prepared string        // the version that all machines are prepared for
	saved    string        // the version before which a snapshot of etcd was saved

	mu     sync.Mutex
	users  int          // operations that wait for the lock, have it, or keep a replica paused
	leases *host.Leases // held while there are users
}

// heldLock is the lock while the change of one replica has it.
type heldLock struct {
	lock    *changeLock
	replica string
}

// acquire waits for the lock, and for other processes that change replicas of the same control
// plane.
func (c *changeLocks) acquire(ctx context.Context, s Spec) (heldLock, error) {
	return c.of(s.Bundle.ClusterID).acquire(ctx, s)
}

// acquireNode is acquire for the lock of the nodes, one of which is drained at a time.
func (c *changeLocks) acquireNode(ctx context.Context, s Spec) (heldLock, error) {
	l := c.named(nodeLeaseName(s.Bundle.ClusterID), "a node")
	if len(l.held) > 0 {
		problem.Progress(ctx, "%s: waiting until the kubelet of another machine has changed", s.Machine())
	}
	return l.acquire(ctx, s)
}

func (l *changeLock) acquire(ctx context.Context, s Spec) (heldLock, error) {
	l.keepLease()
	select {
	case l.held <- struct{}{}:
	case <-ctx.Done():
		l.dropLease()
		return heldLock{}, fmt.Errorf("wait to change replica %s: %w", s.Name, ctx.Err())
	}
	if err := l.takeLease(ctx, s); err != nil {
		<-l.held
		l.dropLease()
		return heldLock{}, err
	}
	return heldLock{lock: l, replica: s.Name}, nil
}

// acquireToStop is acquire for a replica that only stops, because the data of etcd is about to be replaced. It returns
// the context of the change, and what ends it. If no load balancer can be reached, because all are lost, the lease of
// the replica's own machine keeps other processes from changing it: there is no rotation to agree on.
func (c *changeLocks) acquireToStop(
	ctx context.Context, s Spec, own host.LeaseTaker,
) (locked context.Context, unlock func(), err error) {
	lock, err := c.acquire(ctx, s)
	if err == nil {
		return lock.context(ctx), lock.release, nil
	}
	if !host.Unreachable(err) {
		return nil, nil, err
	}
	problem.Progress(ctx, "%s: no load balancer can be reached: %v", s.Machine(), err)
	leases, err := takeLeaseOf(ctx, own, s)
	if err != nil {
		return nil, nil, err
	}
	return leases.Context(ctx), leases.Release, nil
}

// of returns the lock of what is in rotation.
func (c *changeLocks) of(cluster string) *changeLock {
	return c.named(clusterLeaseName(cluster), "what is in rotation")
}

func (c *changeLocks) named(lease, what string) *changeLock {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byLease == nil {
		c.byLease = map[string]*changeLock{}
	}
	l, ok := c.byLease[lease]
	if !ok {
		l = &changeLock{what: what, held: make(chan struct{}, 1), leases: host.NewLeases(lease)}
		c.byLease[lease] = l
	}
	return l
}

// clusterLeaseName returns the name of the lease for changes of rotation.
func clusterLeaseName(cluster string) string { return "replicas-" + cluster }

// nodeLeaseName returns the name of the lease for drains of nodes.
func nodeLeaseName(cluster string) string { return "nodes-" + cluster }

// takeLease takes the lease on every reachable load balancer that does not have it yet. A drain
// needs all of them anyway, so one is enough here.
func (l *changeLock) takeLease(ctx context.Context, s Spec) error {
	balancers := s.Registrar.Balancers()
	if len(balancers) == 0 {
		return nil
	}
	what := l.what + " of control plane " + s.Bundle.ClusterName
	if err := l.leases.Take(ctx, balancers, host.LeaseOptions{What: what}); err != nil {
		return fmt.Errorf("lock the other replicas of %s: %w", s.Machine(), err)
	}
	return nil
}

// keepLease keeps the lease, once it is taken, until dropLease.
func (l *changeLock) keepLease() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users++
}

func (l *changeLock) dropLease() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users--; l.users == 0 {
		l.leases.Release()
	}
}

// context returns ctx for changes under the lock: they fail once another process has
// taken the lease.
func (h heldLock) context(ctx context.Context) context.Context {
	if len(h.lock.leases.Addresses()) == 0 {
		return ctx // no load balancers
	}
	return h.lock.leases.Context(ctx)
}

// checkEarlierFailure returns why no change may begin after the change of another replica has
// failed, even if that change was rolled back: the same change would break this replica too.
func (h heldLock) checkEarlierFailure(machine string) error {
	failed := h.lock.failed
	if failed == "" || failed == h.replica {
		return nil
	}
	return &problem.Problem{
		Summary: "Control-plane replica not changed",
		Host:    machine,
		Cause: fmt.Sprintf("the change of replica %q failed: this one might fail as well, and at most one replica is "+
			"out of rotation at a time", failed),
		Unchanged: problem.Nothing,
		Next:      fmt.Sprintf("correct the cause at replica %q and apply again.", failed),
	}
}

// finish releases the lock after a change of the replica. succeeded reports whether the change succeeded.
func (h heldLock) finish(succeeded bool) {
	switch {
	case !succeeded:
		h.lock.failed = h.replica
	case h.lock.failed == h.replica:
		h.lock.failed = ""
	}
	h.release()
}

// release releases the lock after something that says nothing about a change of the replica, such as a change that was
// not begun. An earlier failure of the replica still counts.
func (h heldLock) release() {
	<-h.lock.held
	h.lock.dropLease()
}

// machineLeaseName is the lease of a machine while its replica is created, changed or deleted.
const machineLeaseName = "replica"

// takeMachineLease takes the lease of a replica's machine.
func takeMachineLease(ctx context.Context, s Spec) (*host.Leases, error) {
	return takeLeaseOf(ctx, s.Host, s)
}

func takeLeaseOf(ctx context.Context, machine host.LeaseTaker, s Spec) (*host.Leases, error) {
	what := "the replica on " + machine.Address()
	leases, err := host.TakeLeases(ctx, []host.LeaseTaker{machine}, machineLeaseName,
		host.LeaseOptions{What: what, All: true})
	if err != nil {
		return nil, fmt.Errorf("lock the machine of replica %s: %w", s.Machine(), err)
	}
	return leases, nil
}

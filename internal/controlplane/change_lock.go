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
// of this process has something to change.
type changeLocks struct {
	mu        sync.Mutex
	byCluster map[string]*changeLock // by cluster id
}

// changeLock is the lock of one control plane. Whoever has it may use failed, prepared and saved, and takes
// the lease.
type changeLock struct {
	cluster  string
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
	l := c.of(s.Bundle.ClusterID)
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

func (c *changeLocks) of(cluster string) *changeLock {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byCluster == nil {
		c.byCluster = map[string]*changeLock{}
	}
	l, ok := c.byCluster[cluster]
	if !ok {
		l = &changeLock{cluster: cluster, held: make(chan struct{}, 1), leases: host.NewLeases(clusterLeaseName(cluster))}
		c.byCluster[cluster] = l
	}
	return l
}

// clusterLeaseName returns the name of the lease for changes of rotation.
func clusterLeaseName(cluster string) string { return "replicas-" + cluster }

// takeLease takes the lease on every reachable load balancer that does not have it yet. A drain
// needs all of them anyway, so one is enough here.
func (l *changeLock) takeLease(ctx context.Context, s Spec) error {
	balancers := s.Registrar.Balancers()
	if len(balancers) == 0 {
		return nil
	}
	what := "what is in rotation of control plane " + s.Bundle.ClusterName
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

package controlplane

import (
	"context"
	"fmt"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// turns lets only one replica of a control plane at a time leave rotation or change, and none
// after a change that failed. Within a process, a queue ensures this. Between processes, a
// lease on the machines of the load balancers does. The queue holds the lease while any of its
// operations has something to change.
type turns struct {
	mu     sync.Mutex
	queues map[string]*queue // by cluster id
}

// queue is the queue of one control plane. The semaphore guards failed and prepared; its holder
// takes the lease.
type queue struct {
	cluster   string
	semaphore chan struct{} // full while an operation has the turn
	failed    string        // the replica whose change failed; "" if none
	prepared  string        // the version that all machines are prepared for

	mu     sync.Mutex
	users  int          // operations that wait for the turn, have it, or keep a replica paused
	leases *host.Leases // held while there are users
}

// turn belongs to one replica.
type turn struct {
	queue   *queue
	replica string
}

// take waits for the turn, and for other processes that change replicas of the same control
// plane.
func (t *turns) take(ctx context.Context, s Spec) (turn, error) {
	q := t.queue(s.Bundle.ClusterID)
	q.enter()
	select {
	case q.semaphore <- struct{}{}:
	case <-ctx.Done():
		q.leave()
		return turn{}, fmt.Errorf("wait for the turn of replica %s: %w", s.Name, ctx.Err())
	}
	if err := q.lease(ctx, s); err != nil {
		<-q.semaphore
		q.leave()
		return turn{}, err
	}
	return turn{queue: q, replica: s.Name}, nil
}

func (t *turns) queue(cluster string) *queue {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queues == nil {
		t.queues = map[string]*queue{}
	}
	q, ok := t.queues[cluster]
	if !ok {
		q = &queue{cluster: cluster, semaphore: make(chan struct{}, 1), leases: host.NewLeases(leaseName(cluster))}
		t.queues[cluster] = q
	}
	return q
}

// leaseName returns the name of the lease for changes of rotation.
func leaseName(cluster string) string { return "replicas-" + cluster }

// lease takes the lease on every reachable load balancer that does not have it yet. A drain
// needs all of them anyway, so one is enough here.
func (q *queue) lease(ctx context.Context, s Spec) error {
	balancers := s.Registrar.Balancers()
	if len(balancers) == 0 {
		return nil
	}
	what := "what is in rotation of control plane " + s.Bundle.ClusterName
	if err := q.leases.Take(ctx, balancers, host.LeaseOptions{What: what}); err != nil {
		return fmt.Errorf("lock the replicas beside %s: %w", s.Machine(), err)
	}
	return nil
}

// enter keeps the lease, once it is taken, until leave.
func (q *queue) enter() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.users++
}

func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.users--; q.users == 0 {
		q.leases.Release()
	}
}

// context returns ctx for changes within the turn: they fail once another process has
// taken the lease.
func (t turn) context(ctx context.Context) context.Context {
	if len(t.queue.leases.Addresses()) == 0 {
		return ctx // no load balancers
	}
	return t.queue.leases.Context(ctx)
}

// refuse returns why no change may begin after the change of another replica has failed, even
// if that change was rolled back: the same change would break this replica too.
func (t turn) refuse(machine string) error {
	failed := t.queue.failed
	if failed == "" || failed == t.replica {
		return nil
	}
	return &problem.Problem{
		Summary:   "control-plane replica not changed",
		Host:      machine,
		Cause:     fmt.Sprintf("the change of replica %q failed: this one might fail as well, and at most one replica is out of rotation at a time", failed),
		Unchanged: problem.Nothing,
		Next:      fmt.Sprintf("correct the cause at replica %q and apply again.", failed),
	}
}

// end returns the turn. came reports whether the change succeeded.
func (t turn) end(came bool) {
	switch {
	case !came:
		t.queue.failed = t.replica
	case t.queue.failed == t.replica:
		t.queue.failed = ""
	}
	<-t.queue.semaphore
	t.queue.leave()
}

// machineLease is held on a machine while a replica is created, changed or deleted
// there.
const machineLease = "replica"

// takeMachineLease takes the lease of a replica's machine.
func takeMachineLease(ctx context.Context, s Spec) (*host.Leases, error) {
	what := "the replica on " + s.Host.Address()
	leases, err := host.TakeLeases(ctx, []host.LeaseTaker{s.Host}, machineLease, host.LeaseOptions{What: what, All: true})
	if err != nil {
		return nil, fmt.Errorf("lock the machine of replica %s: %w", s.Machine(), err)
	}
	return leases, nil
}

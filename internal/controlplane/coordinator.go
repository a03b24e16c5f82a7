package controlplane

import (
	"context"
	"fmt"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// turns lets one replica of a control plane at a time leave rotation or
// change, and no other change after one that did not come back. It covers this process
// only; between processes Registrar.Drain's refusal to take the last healthy
// backend is what holds.
type turns struct {
	mu     sync.Mutex
	queues map[string]*queue // by cluster id
}

// queue is one control plane's. The semaphore guards the rest.
type queue struct {
	semaphore chan struct{} // full while someone has the turn
	failed    string        // the replica whose change failed; "" if none
	prepared  string        // the version that all machines are prepared for
}

// turn is held by one replica.
type turn struct {
	queue   *queue
	replica string
}

// take waits for the turn.
func (t *turns) take(ctx context.Context, cluster, replica string) (turn, error) {
	q := t.queue(cluster)
	select {
	case q.semaphore <- struct{}{}:
		return turn{queue: q, replica: replica}, nil
	case <-ctx.Done():
		return turn{}, fmt.Errorf("wait for the turn of replica %s: %w", replica, ctx.Err())
	}
}

func (t *turns) queue(cluster string) *queue {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queues == nil {
		t.queues = map[string]*queue{}
	}
	q, ok := t.queues[cluster]
	if !ok {
		q = &queue{semaphore: make(chan struct{}, 1)}
		t.queues[cluster] = q
	}
	return q
}

// refuse says why a change must not begin after another replica's has failed,
// also where that one is back as it was: the same change would break this one too.
func (t turn) refuse(machine string) error {
	failed := t.queue.failed
	if failed == "" || failed == t.replica {
		return nil
	}
	return &problem.Problem{
		Summary:   "control-plane replica not changed",
		Host:      machine,
		Cause:     fmt.Sprintf("the change of replica %q failed: the same might happen here, and at most one replica is out of rotation at a time", failed),
		Unchanged: problem.Nothing,
		Next:      fmt.Sprintf("correct the cause at replica %q and apply again.", failed),
	}
}

// end gives the turn back; came says whether its change was done.
func (t turn) end(came bool) {
	switch {
	case !came:
		t.queue.failed = t.replica
	case t.queue.failed == t.replica:
		t.queue.failed = ""
	}
	<-t.queue.semaphore
}

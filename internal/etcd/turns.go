package etcd

import (
	"context"
	"slices"
	"sync"
	"time"
)

// turns is the queue in which the members of one cluster are changed, one at a
// time. A holder may yield to the others that wait: that is how the leader
// comes last, and how a removal waits for another that must come first.
type turns struct {
	// acquired is called by whoever has just got the turn, and may refuse it; idle
	// when nobody has or waits for one any more. nil: not called.
	acquired func(context.Context) error
	idle     func()

	mu      sync.Mutex
	queue   []*turn
	arrived time.Time // when the last one joined the queue
}

// empty reports whether nobody has the turn or waits for it.
func (q *turns) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue) == 0
}

// turn is one place in the queue; the first one is the holder's.
type turn struct {
	queue *turns
	first chan struct{} // holds one value when this turn has become the first
}

// enter takes the last place. The caller must leave in the end.
func (q *turns) enter() *turn {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := &turn{queue: q, first: make(chan struct{}, 1)}
	q.arrived = time.Now()
	q.push(t)
	return t
}

func (q *turns) push(t *turn) {
	q.queue = append(q.queue, t)
	if len(q.queue) == 1 {
		t.first <- struct{}{}
	}
}

func (q *turns) drop(t *turn) {
	held := len(q.queue) > 0 && q.queue[0] == t
	q.queue = slices.DeleteFunc(q.queue, func(other *turn) bool { return other == t })
	if held && len(q.queue) > 0 {
		q.queue[0].first <- struct{}{}
	}
}

// wait blocks until this is the first place.
func (t *turn) wait(ctx context.Context) error {
	select {
	case <-t.first:
		if t.queue.acquired != nil {
			return t.queue.acquired(ctx)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave gives the place up, held or not.
func (t *turn) leave() {
	t.queue.mu.Lock()
	t.queue.drop(t)
	t.queue.mu.Unlock()
	if t.queue.idle != nil && t.queue.empty() {
		t.queue.idle()
	}
}

// yield goes to the end of the queue and waits for the next turn.
func (t *turn) yield(ctx context.Context) error {
	q := t.queue
	q.mu.Lock()
	q.drop(t)
	select { // the value may be there when the turn was never waited for
	case <-t.first:
	default:
	}
	q.push(t)
	q.mu.Unlock()
	return t.wait(ctx)
}

// others is how many wait behind, and for how long nobody has joined.
func (t *turn) others() (waiting int, quiet time.Duration) {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	return len(t.queue.queue) - 1, time.Since(t.queue.arrived)
}

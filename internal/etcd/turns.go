package etcd

import (
	"context"
	"slices"
	"sync"
	"time"
)

// turns is the queue in which the members of one cluster are changed, one at a time. The
// holder of the turn may yield to those that wait. That is how the leader comes last, and
// how a removal waits for another one that must come first.
type turns struct {
	// acquired is called by the goroutine that has just got the turn, and may refuse it.
	// idle is called when no goroutine has the turn or waits for it any more. nil: not
	// called.
	acquired func(context.Context) error
	idle     func()

	mu      sync.Mutex
	queue   []*turn
	arrived time.Time // when the last turn joined the queue
}

// empty reports whether no goroutine has the turn or waits for it.
func (q *turns) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue) == 0
}

// turn is one place in the queue; the first place is the holder's.
type turn struct {
	queue *turns
	first chan struct{} // contains one value when this turn has become the first

	// Guarded by queue.mu.
	since time.Time     // when it became the first; zero: it is not
	past  time.Duration // how long it has been the first in earlier turns
}

// enter takes the last place. The caller must call leave eventually.
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
		t.grant()
	}
}

func (t *turn) grant() {
	t.since = time.Now()
	t.first <- struct{}{}
}

func (q *turns) drop(t *turn) {
	held := len(q.queue) > 0 && q.queue[0] == t
	if held {
		t.past, t.since = t.past+time.Since(t.since), time.Time{}
	}
	q.queue = slices.DeleteFunc(q.queue, func(other *turn) bool { return other == t })
	if held && len(q.queue) > 0 {
		q.queue[0].grant()
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

// leave gives the place up, whether or not it is the first.
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
	select { // the value may be there if the turn was never waited for
	case <-t.first:
	default:
	}
	q.push(t)
	q.mu.Unlock()
	return t.wait(ctx)
}

// others returns how many wait behind this turn, and for how long no new one has joined.
func (t *turn) others() (waiting int, quiet time.Duration) {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	return len(t.queue.queue) - 1, time.Since(t.queue.arrived)
}

// held returns for how long this turn has been the first: the clock of its waits.
func (t *turn) held() time.Duration {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	if t.since.IsZero() {
		return t.past
	}
	return t.past + time.Since(t.since)
}

// waitClock measures how long a member has waited for one condition. It uses the clock of
// the member's turn, so it excludes the turns of others. The zero value has not begun.
type waitClock struct {
	turn *turn
	from time.Duration
}

// begin starts the clock, unless it runs already.
func (l *waitClock) begin(t *turn) {
	if l.turn == nil {
		l.turn, l.from = t, t.held()
	}
}

// restart starts the clock again from zero.
func (l *waitClock) restart(t *turn) { l.turn, l.from = t, t.held() }

// end stops the clock: the next wait starts from zero.
func (l *waitClock) end() { *l = waitClock{} }

func (l *waitClock) running() bool { return l.turn != nil }

// lasted returns the measured time; zero if the clock does not run.
func (l *waitClock) lasted() time.Duration {
	if l.turn == nil {
		return 0
	}
	return l.turn.held() - l.from
}

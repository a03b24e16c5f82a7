// Package wait is how changes of one cluster wait for their turn, and how long they have waited.
package wait

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Queue is the queue in which the members of one cluster are changed, one at a time. The
// holder of the turn may yield to those that wait. That is how the leader comes last, and
// how a removal waits for another one that must come first.
type Queue struct {
	// Acquired, if set, is called by the goroutine that has just got the turn. An error refuses the turn.
	Acquired func(context.Context) error
	// Idle, if set, is called when no goroutine has the turn or waits for it.
	Idle func()

	mu      sync.Mutex
	queue   []*Turn
	arrived time.Time // when the last turn joined the queue
}

// Empty reports whether no goroutine has the turn or waits for it.
func (q *Queue) Empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue) == 0
}

// Turn is one place in the queue; the first place is the holder's.
type Turn struct {
	queue *Queue
	first chan struct{} // contains one value when this turn has become the first

	// Guarded by queue.mu.
	since time.Time     // when it became the first; zero: it is not
	past  time.Duration // how long it has been the first in earlier turns
	kept  bool          // see Keep
}

// Enter takes the last place. The caller must call Leave.
func (q *Queue) Enter() *Turn {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := &Turn{queue: q, first: make(chan struct{}, 1)}
	q.arrived = time.Now()
	q.push(t)
	return t
}

func (q *Queue) push(t *Turn) {
	q.queue = append(q.queue, t)
	if len(q.queue) == 1 {
		t.grant()
	}
}

func (t *Turn) grant() {
	t.since = time.Now()
	t.first <- struct{}{}
}

func (q *Queue) drop(t *Turn) {
	held := len(q.queue) > 0 && q.queue[0] == t
	if held {
		t.past, t.since = t.past+time.Since(t.since), time.Time{}
	}
	q.queue = slices.DeleteFunc(q.queue, func(other *Turn) bool { return other == t })
	if held && len(q.queue) > 0 {
		q.queue[0].grant()
	}
}

// Wait blocks until this is the first place.
func (t *Turn) Wait(ctx context.Context) error {
	select {
	case <-t.first:
		if t.queue.Acquired != nil {
			return t.queue.Acquired(ctx)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Leave gives the place up, whether or not it is the first.
func (t *Turn) Leave() {
	t.queue.mu.Lock()
	t.queue.drop(t)
	t.queue.mu.Unlock()
	if t.queue.Idle != nil && t.queue.Empty() {
		t.queue.Idle()
	}
}

// Yield goes to the end of the queue and waits for the next turn.
func (t *Turn) Yield(ctx context.Context) error {
	q := t.queue
	q.mu.Lock()
	q.drop(t)
	select { // the value may be there if the turn was never waited for
	case <-t.first:
	default:
	}
	q.push(t)
	q.mu.Unlock()
	return t.Wait(ctx)
}

// Others returns how many wait behind this turn that it may yield to, and for how long no new one has joined. A turn
// that is kept yields to none.
func (t *Turn) Others() (waiting int, quiet time.Duration) {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	if !t.kept {
		waiting = len(t.queue.queue) - 1
	}
	return waiting, time.Since(t.queue.arrived)
}

// Keep keeps the turn until Free: its holder has stopped something, or has locked it, so no other member may be changed
// before that ends.
func (t *Turn) Keep() { t.setKept(true) }

// Free ends Keep.
func (t *Turn) Free() { t.setKept(false) }

func (t *Turn) setKept(kept bool) {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	t.kept = kept
}

// Held returns for how long this turn has been the first: the clock of its waits.
func (t *Turn) Held() time.Duration {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	if t.since.IsZero() {
		return t.past
	}
	return t.past + time.Since(t.since)
}

// Clock measures how long a member has waited for one condition. It uses the clock of
// the member's turn, so it excludes the turns of others. The zero value has not begun.
type Clock struct {
	turn *Turn
	from time.Duration
}

// Begin starts the clock, unless it runs already.
func (l *Clock) Begin(t *Turn) {
	if l.turn == nil {
		l.turn, l.from = t, t.Held()
	}
}

// Restart starts the clock again from zero.
func (l *Clock) Restart(t *Turn) { l.turn, l.from = t, t.Held() }

// End stops the clock: the next wait starts from zero.
func (l *Clock) End() { *l = Clock{} }

// Exclude leaves out the time since the turn had been held for a time: its holder did something else than wait.
func (l *Clock) Exclude(since time.Duration) {
	if l.turn != nil {
		l.from += l.turn.Held() - since
	}
}

// Running reports whether the clock runs.
func (l *Clock) Running() bool { return l.turn != nil }

// Lasted returns the measured time; zero if the clock does not run.
func (l *Clock) Lasted() time.Duration {
	if l.turn == nil {
		return 0
	}
	return l.turn.Held() - l.from
}

// Pause waits for d, or returns early with ctx's error.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

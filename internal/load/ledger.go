package load

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// rhythm finds the longest time between two successive successes. All times
// count from the beginning of the run.
type rhythm struct {
	longest Gap
	last    time.Duration // the latest success, or the beginning
	begun   bool
}

// beat is a success. What led to the first one is not a gap: nobody was served
// before.
func (r *rhythm) beat(at time.Duration) {
	if r.begun {
		r.widen(at)
	}
	r.last, r.begun = at, true
}

// until gives the longest gap when no request was sent after at: a silence that
// lasted to the end is one too.
func (r rhythm) until(at time.Duration) Gap {
	r.widen(at)
	return r.longest
}

func (r *rhythm) widen(at time.Duration) {
	if length := at - r.last; length > r.longest.Length {
		r.longest = Gap{Length: length, At: r.last}
	}
}

// tally counts requests of one sort.
type tally struct {
	tried, failed int
	rhythm        rhythm
}

func (t *tally) count(at time.Duration, err error) {
	t.tried++
	if err != nil {
		t.failed++
		return
	}
	t.rhythm.beat(at)
}

func (t tally) requests(stopped time.Duration) Requests {
	return Requests{Tried: t.tried, Failed: t.failed, Gap: t.rhythm.until(stopped)}
}

// ledger is the account of one client. Its methods may run at the same time.
type ledger struct {
	began time.Time
	first *milestone

	mu                 sync.Mutex
	all, reads, writes tally
	series             Series
	faults             faults
	written            []string // acknowledged, in the order of the answers
}

func newLedger(began time.Time) *ledger {
	return &ledger{began: began, first: newMilestone(), faults: faults{}}
}

// read is the outcome of one read.
func (l *ledger) read(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count(&l.reads, err)
}

// wrote is the outcome of writing a key.
func (l *ledger) wrote(key string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count(&l.writes, err)
	if err == nil {
		l.written = append(l.written, key)
	}
}

// count takes the time under the lock, so that times never run backwards.
func (l *ledger) count(t *tally, err error) {
	at := time.Since(l.began)
	l.series.count(at, l.all.rhythm.last, err == nil)
	t.count(at, err)
	l.all.count(at, err)
	if err != nil {
		l.faults.add(at, err)
		return
	}
	l.first.pass()
}

// newest is a key that was acknowledged last.
func (l *ledger) newest() (string, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.written) == 0 {
		return "", false
	}
	return l.written[len(l.written)-1], true
}

func (l *ledger) acknowledged() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.written)
}

// awaitFirst waits for the first success.
func (l *ledger) awaitFirst(ctx context.Context) error {
	return l.first.await(ctx, func() []Fault {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.faults.list()
	})
}

func (l *ledger) report(name string, dialled int, stopped time.Duration) Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Client{
		Name: name, Dialled: dialled,
		All: l.all.requests(stopped), Reads: l.reads.requests(stopped), Writes: l.writes.requests(stopped),
		Acknowledged: len(l.written), Faults: l.faults.list(), Series: l.series.named(name),
	}
}

// milestone is passed once, and may be waited for.
type milestone struct {
	once   sync.Once
	passed chan struct{}
}

func newMilestone() *milestone { return &milestone{passed: make(chan struct{})} }

func (m *milestone) pass() { m.once.Do(func() { close(m.passed) }) }

// await says, when ctx ends first, what was seen instead.
func (m *milestone) await(ctx context.Context, seen func() []Fault) error {
	select {
	case <-m.passed:
		return nil
	case <-ctx.Done():
		if faults := seen(); len(faults) > 0 {
			return fmt.Errorf("no success: %w: %s", ctx.Err(), faults[len(faults)-1])
		}
		return fmt.Errorf("no success: %w", ctx.Err())
	}
}

// without gives those of names that are not there.
func without(names []string, there map[string]bool) []string {
	var lost []string
	for _, name := range names {
		if !there[name] {
			lost = append(lost, name)
		}
	}
	return lost
}

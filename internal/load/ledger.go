package load

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// gapFinder determines the longest time between two successive successes. Times count from the
// start of the run.
type gapFinder struct {
	longest Gap
	last    time.Duration // the latest success, or the beginning
	begun   bool
}

// success records a success. The time before the first one is not a gap.
func (r *gapFinder) success(at time.Duration) {
	if r.begun {
		r.extend(at)
	}
	r.last, r.begun = at, true
}

// longestUntil returns the longest gap if no request was sent after at. A silence until the end
// is a gap too.
func (r gapFinder) longestUntil(at time.Duration) Gap {
	r.extend(at)
	return r.longest
}

func (r *gapFinder) extend(at time.Duration) {
	if length := at - r.last; length > r.longest.Length {
		r.longest = Gap{Length: length, At: r.last}
	}
}

// counter counts requests of one kind.
type counter struct {
	Requests // without Gap
	gaps     gapFinder
}

func (t *counter) count(at time.Duration, o outcome, excused bool) {
	t.Tried++
	if o.repeated {
		t.Repeated++
	}
	if o.err == nil {
		t.gaps.success(at)
		return
	}
	t.Failed++
	if excused {
		t.Excused++
	}
	if isRefusal(o.err) {
		t.Refused++
	}
}

func (t counter) requests(stopped time.Duration) Requests {
	r := t.Requests
	r.Gap = t.gaps.longestUntil(stopped)
	return r
}

// ledger records the requests of one client. Its methods are safe for concurrent use.
type ledger struct {
	began time.Time
	first *milestone

	mu                 sync.Mutex
	excuses            *excuser
	all, reads, writes counter
	series             Series
	errors             errorCounts
	written            []string // acknowledged, in the order of the answers
}

func newLedger(began time.Time, excuses *excuser) *ledger {
	return &ledger{began: began, first: newMilestone(), errors: errorCounts{}, excuses: excuses}
}

// read records the result of one read.
func (l *ledger) read(o outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count(&l.reads, o)
}

// wrote records the result of writing a key.
func (l *ledger) wrote(key string, o outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count(&l.writes, o)
	if o.err == nil {
		l.written = append(l.written, key)
	}
}

// count reads the clock under the lock, so that times never run backwards.
func (l *ledger) count(t *counter, o outcome) {
	at, excuse := time.Since(l.began), ""
	if o.err != nil {
		excuse = l.excuses.excuse(o.err)
		l.errors.add(at, o.err, excuse)
	} else {
		l.first.pass()
	}
	l.series.count(at, l.all.gaps.last, o.err == nil)
	t.count(at, o, excuse != "")
	l.all.count(at, o, excuse != "")
}

// newest returns the last acknowledged key.
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

// waitForFirst waits for the first success.
func (l *ledger) waitForFirst(ctx context.Context) error {
	return l.first.wait(ctx, func() []ErrorCount {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.errors.list()
	})
}

func (l *ledger) report(name string, dials *dials, stopped time.Duration) Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Client{
		Name: name, Dialled: int(dials.begun.Load()), DialsRefused: int(dials.refused.Load()),
		All: l.all.requests(stopped), Reads: l.reads.requests(stopped), Writes: l.writes.requests(stopped),
		Acknowledged: len(l.written), Errors: l.errors.list(), Series: l.series.named(name),
	}
}

// milestone is reached once, and can be waited for.
type milestone struct {
	once   sync.Once
	passed chan struct{}
}

func newMilestone() *milestone { return &milestone{passed: make(chan struct{})} }

func (m *milestone) pass() { m.once.Do(func() { close(m.passed) }) }

// wait waits for the milestone. If ctx ends first, the error contains what seen returns.
func (m *milestone) wait(ctx context.Context, seen func() []ErrorCount) error {
	select {
	case <-m.passed:
		return nil
	case <-ctx.Done():
		if errs := seen(); len(errs) > 0 {
			return fmt.Errorf("no success: %w: %s", ctx.Err(), errs[len(errs)-1])
		}
		return fmt.Errorf("no success: %w", ctx.Err())
	}
}

// without returns the names that are not in there.
func without(names []string, there map[string]bool) []string {
	var lost []string
	for _, name := range names {
		if !there[name] {
			lost = append(lost, name)
		}
	}
	return lost
}

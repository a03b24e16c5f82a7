package client

import (
	"sync"
	"time"
)

// leaderlessFor is how long it is remembered that a member has waited for a leader in vain.
const leaderlessFor = 30 * time.Second

// Leaderless remembers the members that have lately waited for a leader for the time of a request, which is longer than
// an election takes. Each look at a cluster without a quorum would otherwise last as long: such a member answers a
// linearizable read only when it has a leader. Asked with WithRequireLeader, it says at once that it has none.
type Leaderless struct {
	mu   sync.Mutex
	last map[string]time.Time // by address
}

// lately reports whether the member at an address has lately waited in vain.
func (l *Leaderless) lately(address string) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at, known := l.last[address]
	return known && time.Since(at) < leaderlessFor
}

// note records how a request to the member at an address has ended that took some time.
func (l *Leaderless) note(address string, err error, took time.Duration) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		delete(l.last, address)
	case took >= RequestTimeout:
		if l.last == nil {
			l.last = map[string]time.Time{}
		}
		l.last[address] = time.Now()
	}
}

// Forget makes the next request to each member wait for a leader: for a look that decides about data.
func (l *Leaderless) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.last)
}

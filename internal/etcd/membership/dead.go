package membership

import "time"

// DeadSamples is the minimum number of unanswered requests before a member counts as dead.
const DeadSamples = 3

// Unanswered counts the unanswered requests to a member, and the time that they cover. It
// is pure.
type Unanswered struct {
	from, last time.Time
	asked      int
}

// Add records a request that was sent at asked and not answered by until.
func (s *Unanswered) Add(asked, until time.Time) {
	if s.asked == 0 {
		s.from = asked
	}
	s.asked, s.last = s.asked+1, until
}

// Dead reports whether the member has been silent for long enough to count as dead.
func (s Unanswered) Dead(limit time.Duration) bool {
	return s.asked >= DeadSamples && s.last.Sub(s.from) >= limit
}

// DeathVerdict is the decision that a member is dead. It is valid for a short time only.
type DeathVerdict struct {
	ID uint64
	At time.Time
}

// Mark returns v with the member marked as dead, unless the member answers again or the
// verdict is older than lasts.
func (d DeathVerdict) Mark(v View, lasts time.Duration) View {
	m, listed := v.Member(d.ID)
	if !listed || m.Healthy || time.Since(d.At) > lasts {
		return v
	}
	return v.WithDead(d.ID)
}

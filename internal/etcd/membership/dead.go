package membership

import "time"

// DeadSamples is how often at least a member is asked in vain before it counts
// as dead.
const DeadSamples = 3

// Unanswered is how often and for how long a member was asked in vain. It is pure.
type Unanswered struct {
	from, last time.Time
	asked      int
}

// Add notes a question that was asked at one time and not answered until
// another.
func (s *Unanswered) Add(asked, until time.Time) {
	if s.asked == 0 {
		s.from = asked
	}
	s.asked, s.last = s.asked+1, until
}

// Dead reports whether the silence is that of a dead member.
func (s Unanswered) Dead(limit time.Duration) bool {
	return s.asked >= DeadSamples && s.last.Sub(s.from) >= limit
}

// DeathVerdict is that a member is dead. It is worth something for a short time only.
type DeathVerdict struct {
	ID uint64
	At time.Time
}

// Mark returns v with the verdict beside the member, unless that one answers
// again or the verdict is old.
func (d DeathVerdict) Mark(v View, lasts time.Duration) View {
	m, listed := v.Member(d.ID)
	if !listed || m.Healthy || time.Since(d.At) > lasts {
		return v
	}
	return v.WithDead(d.ID)
}
